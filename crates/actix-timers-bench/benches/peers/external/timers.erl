%% Erlang's send_after and cancel_timer: "main SIZE".
%%
%% Each input line requests a round: "pending" for start, churn and stop with SIZE timers pending, "fire SECONDS" for
%% the delivery of SIZE timers within that time. The reply is a line per operation, with the caller's elapsed time and
%% the CPU time of all threads, and "done".
%%
%% Random numbers are drawn before the clock is read, because they are expensive here. Timers are stored by number in
%% the process dictionary, the cheapest mutable storage.
-module(timers).
-export([main/1]).

main([Size]) ->
    calibrate(),
    answer(list_to_integer(Size)).

answer(Size) ->
    case io:get_line("") of
        eof -> halt(0);
        "pending\n" -> in_process_of_its_own(fun() -> pending(Size) end);
        "fire " ++ Seconds ->
            Span = list_to_integer(string:trim(Seconds)) * 1000000000,
            in_process_of_its_own(fun() -> fire(Size, Span) end)
    end,
    io:format("done~n"),
    answer(Size).

%% Each round begins with an empty heap.
in_process_of_its_own(Work) ->
    {Pid, Monitor} = spawn_monitor(Work),
    receive
        {'DOWN', Monitor, process, Pid, normal} -> ok;
        {'DOWN', Monitor, process, Pid, Reason} -> io:format(standard_error, "failed: ~p~n", [Reason]), halt(1)
    end.

pending(Size) ->
    seed(),
    Delays = delays(Size),
    Replacements = lists:zip(delays(Size), [rand:uniform(Size) || _ <- lists:seq(1, Size)]),
    Order = shuffled(lists:seq(1, Size)),
    {Started, References} = clocked(fun() -> start(Delays, []) end),
    print("start", Size, Started),

    number(References, 1),
    {Churned, ReplacedCount} = clocked(fun() -> churn(Replacements, 0) end),
    print("churn", Size, Churned),
    Size = ReplacedCount,

    Shuffled = [get(Number) || Number <- Order],
    {Stopped, CancelledCount} = clocked(fun() -> stop(Shuffled, 0) end),
    print("stop", Size, Stopped),
    Size = CancelledCount,
    {message_queue_len, 0} = process_info(self(), message_queue_len).

start([Delay | Delays], References) ->
    start(Delays, [erlang:send_after(Delay, self(), {note, 1, 2, 3, 4}) | References]);
start([], References) ->
    References.

churn([{Delay, Place} | Rest], Count) ->
    Old = put(Place, erlang:send_after(Delay, self(), {note, 1, 2, 3, 4})),
    churn(Rest, Count + cancelled(Old));
churn([], Count) ->
    Count.

stop([Reference | References], Count) ->
    stop(References, Count + cancelled(Reference));
stop([], Count) ->
    Count.

cancelled(Reference) ->
    case erlang:cancel_timer(Reference) of
        false -> 0;
        _ -> 1
    end.

number([Reference | References], Number) ->
    put(Number, Reference),
    number(References, Number + 1);
number([], _) ->
    ok.

fire(Size, Span) ->
    seed(),
    Offsets = [rand:uniform(Span) - 1 || _ <- lists:seq(1, Size)],
    Parent = self(),
    {Receiver, Monitor} = spawn_monitor(fun() -> receiver(Size, Parent) end),
    Before = cpu(),
    %% All are scheduled before the first is due.
    Begin = erlang:monotonic_time(nanosecond) + 500000000 + 5000 * Size,
    schedule(Offsets, Begin, Receiver),
    true = erlang:monotonic_time(nanosecond) < Begin,
    Scheduled = cpu(),
    receive
        complete -> ok;
        {'DOWN', Monitor, process, Receiver, Reason} -> exit(Reason)
    end,
    {After, All} = {since(Scheduled), since(Before)},

    Receiver ! report,
    Late = receive {late, Nanos} -> Nanos end,
    Sorted = list_to_tuple(lists:sort(Late)),
    Size = tuple_size(Sorted),
    Early = length([One || One <- Late, One < 0]),
    Quantile = fun(Share) -> element(1 + round((Size - 1) * Share), Sorted) / 1.0e6 end,
    io:format(
        "fire p50_ms=~.4f p99_ms=~.4f p999_ms=~.4f max_ms=~.4f early=~b cpu_after_s=~.4f cpu_all_s=~.4f~n",
        [Quantile(0.5), Quantile(0.99), Quantile(0.999), Quantile(1), Early, After / 1.0e9, All / 1.0e9]).

schedule([Offset | Offsets], Begin, Receiver) ->
    Due = Begin + Offset,
    erlang:send_after(milliseconds(Due), Receiver, {note, Due, 2, 3, 4}, [{abs, true}]),
    schedule(Offsets, Begin, Receiver);
schedule([], _, _) ->
    ok.

%% The timers count in milliseconds: rounded up, so that none is early. Monotonic time may be negative, and `div` rounds
%% towards zero.
milliseconds(Nanos) when Nanos > 0 -> (Nanos + 999999) div 1000000;
milliseconds(Nanos) -> Nanos div 1000000.

receiver(Size, Parent) ->
    Late = received(Size, []),
    Parent ! complete,
    receive report -> Parent ! {late, Late} end.

%% Messages contain their deadlines.
received(0, Late) ->
    Late;
received(Missing, Late) ->
    receive
        {note, Due, _, _, _} -> received(Missing - 1, [erlang:monotonic_time(nanosecond) - Due | Late])
    after 120000 -> exit(lost)
    end.

%% Returns 10 s to 1 h in milliseconds; with many timers somewhat more, so that none is due before its cancel.
delays(Size) ->
    [10000 + Size div 10 + rand:uniform(3590000) - 1 || _ <- lists:seq(1, Size)].

seed() ->
    rand:seed(exsss, 1).

shuffled(List) ->
    [Item || {_, Item} <- lists:sort([{rand:uniform(1 bsl 58), Item} || Item <- List])].

clocked(Work) ->
    Cpu = cpu(),
    Begin = erlang:monotonic_time(nanosecond),
    Result = Work(),
    Wall = erlang:monotonic_time(nanosecond) - Begin,
    {{Wall, since(Cpu)}, Result}.

print(Operation, Size, {Wall, Cpu}) ->
    io:format("~s wall_ns=~.2f cpu_ns=~.2f~n", [Operation, Wall / Size, Cpu / Size]).

%% Returns the CPU time of all threads of this process in nanoseconds. A thread's time is up to date after it has slept.
%% (The runtime's own figure is in milliseconds.)
cpu() ->
    timer:sleep(2),
    {ok, Threads} = file:list_dir("/proc/self/task"),
    lists:sum([thread_cpu(Thread) || Thread <- Threads]).

thread_cpu(Thread) ->
    case file:read_file(["/proc/self/task/", Thread, "/schedstat"]) of
        {ok, Text} -> binary_to_integer(hd(binary:split(Text, <<" ">>)));
        {error, _} -> 0
    end.

since(Before) ->
    cpu() - Before - persistent_term:get(cost_of_reading).

calibrate() ->
    persistent_term:put(cost_of_reading, 0),
    persistent_term:put(cost_of_reading, lists:min([since(cpu()) || _ <- lists:seq(1, 50)])).
