//! Scenarios: with all rules they hold, and without each rule one fails.

use super::{Budget, CLOSURE, Message, OWN_MESSAGE, PLAIN, Scenario, TRACKED, Way, World, message};

const NONE: Budget =
    Budget { cancels: 0, moves: 0, closes: 0, restarts: 0, floods: 0, departures: 0, drains: 0, endless: 0 };
const REQUEST: Message = message(Way::Request).within(1);

impl Scenario {
    fn of(messages: &[Message], budget: Budget) -> Self {
        Self { messages: messages.to_vec(), accepts_bells: false, hands_over_runs: false, budget }
    }

    fn accepting(self) -> Self {
        Self { accepts_bells: true, ..self }
    }

    fn handing_over_runs(self) -> Self {
        Self { hands_over_runs: true, ..self }
    }
}

fn tracked_and_plain() -> Scenario {
    let messages = [TRACKED, PLAIN, TRACKED, TRACKED, PLAIN, TRACKED];
    Scenario::of(&messages, Budget { cancels: 1, moves: 1, ..NONE }).handing_over_runs()
}

fn runs() -> Scenario {
    Scenario::of(&[PLAIN, TRACKED, PLAIN, PLAIN, TRACKED], NONE)
}

fn windows() -> Scenario {
    let budget = Budget { cancels: 1, moves: 1, ..NONE };
    Scenario::of(&[TRACKED.within(2); 5], budget).handing_over_runs()
}

fn closed_mailbox() -> Scenario {
    let messages = [TRACKED.within(1), TRACKED.within(2), PLAIN, REQUEST.within(2)];
    Scenario::of(&messages, Budget { cancels: 1, closes: 1, ..NONE })
}

fn requests() -> Scenario {
    Scenario::of(&[REQUEST.within(2); 4], Budget { cancels: 1, moves: 1, closes: 1, ..NONE })
}

fn windows_that_differ() -> Scenario {
    let messages = [REQUEST.within(2), REQUEST.within(2), REQUEST, REQUEST.within(2)];
    Scenario::of(&messages, Budget { closes: 1, ..NONE })
}

fn requests_and_tracked() -> Scenario {
    Scenario::of(&[REQUEST, TRACKED, REQUEST, TRACKED.within(2)], Budget { cancels: 1, closes: 1, ..NONE })
}

fn requests_and_runs() -> Scenario {
    let (request, tracked) = (REQUEST.within(2), TRACKED.within(2));
    let messages = [request, TRACKED.within(1), request, tracked, request];
    Scenario::of(&messages, Budget { moves: 1, ..NONE }).handing_over_runs()
}

fn discarded() -> Scenario {
    let tracked = TRACKED.within(1).discarded_beyond();
    Scenario::of(&[tracked, tracked, REQUEST.discarded_beyond()], Budget { cancels: 1, closes: 1, ..NONE })
}

fn flooded() -> Scenario {
    Scenario::of(&[OWN_MESSAGE; 3], Budget { cancels: 1, moves: 1, floods: 1, ..NONE })
}

fn endless() -> Scenario {
    Scenario::of(&[OWN_MESSAGE; 4], Budget { floods: 1, endless: 1, ..NONE })
}

fn endless_without_an_item() -> Scenario {
    Scenario::of(&[OWN_MESSAGE; 4], Budget { cancels: 1, departures: 1, restarts: 1, endless: 2, ..NONE })
}

fn closures() -> Scenario {
    let messages = [CLOSURE, OWN_MESSAGE, CLOSURE, OWN_MESSAGE];
    Scenario::of(&messages, Budget { cancels: 1, floods: 1, closes: 1, ..NONE })
}

fn own_bells() -> Scenario {
    let budget = Budget { cancels: 1, floods: 1, closes: 1, departures: 1, ..NONE };
    Scenario::of(&[CLOSURE, OWN_MESSAGE, OWN_MESSAGE], budget).accepting().handing_over_runs()
}

fn departing() -> Scenario {
    let budget = Budget { cancels: 1, closes: 1, departures: 1, ..NONE };
    Scenario::of(&[OWN_MESSAGE, OWN_MESSAGE, CLOSURE], budget)
}

fn restarted() -> Scenario {
    let messages = [CLOSURE, OWN_MESSAGE, OWN_MESSAGE.of_the_next_incarnation(), TRACKED];
    Scenario::of(&messages, Budget { restarts: 1, ..NONE })
}

fn restarted_with_bells() -> Scenario {
    let messages = [OWN_MESSAGE, OWN_MESSAGE, OWN_MESSAGE.of_the_next_incarnation(), TRACKED];
    Scenario::of(&messages, Budget { restarts: 1, floods: 1, ..NONE }).accepting()
}

fn repeating() -> Scenario {
    let messages = [TRACKED.then(1), TRACKED.then(2), TRACKED, PLAIN];
    Scenario::of(&messages, Budget { cancels: 1, moves: 1, ..NONE })
}

fn repeating_requests() -> Scenario {
    Scenario::of(&[REQUEST.then(1), REQUEST.then(2), REQUEST], Budget { cancels: 1, closes: 1, ..NONE })
}

fn repeating_own() -> Scenario {
    let messages = [OWN_MESSAGE.then(1), OWN_MESSAGE.then(2), OWN_MESSAGE];
    Scenario::of(&messages, Budget { cancels: 1, floods: 1, ..NONE })
}

fn drained() -> Scenario {
    Scenario::of(&[OWN_MESSAGE, OWN_MESSAGE, TRACKED], Budget { floods: 1, drains: 1, ..NONE })
}

/// Searches scenarios with all rules; each has at least this many states.
macro_rules! holds {
    ($($scenario:ident, $states:literal;)*) => {
        mod holds {
            $(
                #[test]
                fn $scenario() {
                    let world = super::super::World { scenario: super::$scenario(), without: None };
                    let states = world.search().unwrap_or_else(|counterexample| panic!("{counterexample}"));
                    assert!(states >= $states, "only {states} states");
                }
            )*
        }
    };
}

/// Takes rules away: the search finds this failure in this scenario.
macro_rules! is_needed {
    ($($name:ident, $rule:ident, $scenario:ident, $failure:ident;)*) => {
        mod is_needed {
            use super::super::{Failure, Rule, World};

            $(
                #[test]
                fn $name() {
                    let world = World { scenario: super::$scenario(), without: Some(Rule::$rule) };
                    match world.search() {
                        Ok(states) => panic!("nothing fails in {states} states"),
                        Err(found) => assert!(matches!(found.failure, Failure::$failure { .. }), "{found}"),
                    }
                }
            )*
        }
    };
}

holds! {
    tracked_and_plain, 20_400;
    runs, 130;
    windows, 68_000;
    closed_mailbox, 2000;
    requests, 6200;
    windows_that_differ, 200;
    requests_and_tracked, 1800;
    requests_and_runs, 4600;
    discarded, 390;
    flooded, 38_000;
    endless, 7500;
    endless_without_an_item, 94_000;
    closures, 10_900;
    own_bells, 19_700;
    departing, 4700;
    restarted, 5100;
    restarted_with_bells, 14_300;
    repeating, 760;
    repeating_requests, 130;
    repeating_own, 2600;
    drained, 8100;
}

is_needed! {
    a_bell_carries_joins, BellCarriesJoins, tracked_and_plain, Overtaken;
    each_join_rings, EachJoinRings, tracked_and_plain, Overtaken;
    room_rings, RoomRings, windows, TooFewBells;
    step_at_join, StepAtJoin, runs, Overtaken;
    run_before_join, RunBeforeJoin, runs, Overtaken;
    one_sender, OneSender, runs, Overtaken;
    step_after_bell, StepAfterBell, windows, LostWakeUp;
    step_after_end, StepAfterEnd, requests, LostWakeUp;
    post_behind_no_bell, PostBehindNoBell, requests_and_tracked, Overtaken;
    step_after_cancel, StepAfterCancel, requests_and_tracked, LostWakeUp;
    dropped_bell_counts, DroppedBellCounts, closed_mailbox, Miscounted;
    bell_counts_to_its_end, BellCountsToItsEnd, requests_and_runs, Overtaken;
    bells_within_window, BellsWithinWindow, windows, TooManyBells;
    window_at_pull, WindowAtPull, windows, WindowExceeded;
    window_at_post, WindowAtPost, requests, WindowExceeded;
    saturates, Saturates, windows_that_differ, WindowExceeded;
    discards, Discards, discarded, KeptBeyondWindow;
    gone_ends, GoneEnds, closed_mailbox, NeverRests;
    item_first, ItemFirst, flooded, PostedTooSoon;
    watchdog, Watchdog, flooded, Lost;
    empty_is_not_starved, EmptyIsNotStarved, departing, LostWakeUp;
    bound_stays, BoundStays, closures, BoundPosted;
    posted_first, PostedFirst, flooded, Overtaken;
    seen_twice, SeenTwice, flooded, Overtaken;
    begun_is_enough, BegunIsEnough, endless, NeverRests;
    end_counts_once, EndCountsOnce, endless, WindowExceeded;
    woken_after_post, WokenAfterPost, endless, Lost;
    endless_is_followed, EndlessIsFollowed, endless_without_an_item, Lost;
    gives_way_woken, GivesWayWoken, flooded, LostWakeUp;
    step_after_leaving, StepAfterLeaving, departing, LostWakeUp;
    withdrawn_at_restart, WithdrawnAtRestart, restarted, HandledAfterCancel;
    bell_names_incarnation, BellNamesIncarnation, restarted_with_bells, Miscounted;
    posted_has_left, PostedHasLeft, flooded, HandledAfterCancel;
    commit_before_post, CommitBeforePost, repeating_requests, RepeatsAfterCancel;
    commit_at_end, CommitAtEnd, repeating, Overlaps;
    drain_waits, DrainWaits, drained, HandledAfterDrain;
}

/// More of everything at once.
#[test]
#[ignore = "5.6 million states: half a minute if optimized"]
fn large_scenarios_hold() {
    let (request, tracked) = (REQUEST.within(2), TRACKED.within(2));
    let (next, discarded) = (OWN_MESSAGE.of_the_next_incarnation(), TRACKED.within(2).discarded_beyond());
    let disturbed = Budget { cancels: 1, moves: 1, closes: 1, ..NONE };
    let flooded = Budget { floods: 1, ..disturbed };
    let scenarios = [
        Scenario::of(&[TRACKED, PLAIN, TRACKED, TRACKED, PLAIN, TRACKED], Budget { cancels: 2, moves: 2, ..disturbed }),
        Scenario::of(&[request, tracked, REQUEST, TRACKED.within(1), request, tracked], disturbed),
        Scenario::of(&[discarded, tracked, request.discarded_beyond(), discarded, request], disturbed),
        Scenario::of(&[OWN_MESSAGE; 4], Budget { departures: 1, ..flooded }),
        Scenario::of(&[CLOSURE, OWN_MESSAGE, OWN_MESSAGE, next, TRACKED], Budget { restarts: 1, drains: 1, ..flooded }),
        Scenario::of(&[CLOSURE, OWN_MESSAGE, next, next], Budget { restarts: 1, departures: 1, ..flooded }).accepting(),
    ];
    for scenario in scenarios {
        let world = World { scenario: scenario.handing_over_runs(), without: None };
        let states = world.search().unwrap_or_else(|counterexample| panic!("{counterexample}"));
        assert!(states > 100_000, "only {states} states");
    }
}
