//! Durable timers beside a user's timer actor: its settings, its end and its users do not affect their internal timers,
//! which are invisible to its users.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    CancelAllFor, Drain, ListTimers, MailboxPolicy, ManualClock, Target, TimerActor, TimerActorBuilder, TimerContext,
    TimerFilter, TimerGroup, TimerOptions, Timers, scrape,
};
use actix_timers_durable::store::{Counts, MemoryDisk};
use actix_timers_durable::{DurableFilter, DurableState, DurableTimers, Pause, PauseTarget};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::durable::{Act, Diary, Note, ROUTE, at, handled_by, life, ms, notes, run_to};
use support::{ClockWithWall, Probe, metric, probe};

/// Adds one of the user's timers, far away, to a timer actor.
fn with_one_timer(timers: Timers) -> Timers {
    timers.schedule_after(Target::from(&probe().0).strong(), ms(1_000_000_000), support::Note(1));
    timers
}

/// A user's timer actor on the clock of the test.
type Given = Box<dyn Fn(TimerActorBuilder) -> Timers>;

/// Returns timer actors with every setting at its worst, and every end.
fn given() -> Vec<(&'static str, Given)> {
    fn set(set: impl Fn(TimerActorBuilder) -> TimerActorBuilder + 'static) -> Given {
        Box::new(move |builder| set(builder).start().unwrap())
    }
    fn after(act: impl Fn(&Timers) + 'static) -> Given {
        Box::new(move |builder| {
            let timers = with_one_timer(builder.start().unwrap());
            act(&timers);
            timers
        })
    }
    vec![
        ("the defaults", set(|builder| builder)),
        ("messages are discarded", set(|builder| builder.mailbox_policy(MailboxPolicy::Discard { window: 1 }))),
        ("one message at a time", set(|builder| builder.mailbox_policy(MailboxPolicy::Wait { window: 1 }))),
        ("a full wheel", Box::new(|builder| with_one_timer(builder.capacity(1).start().unwrap()))),
        ("one entry a turn", set(|builder| builder.expiry_budget(1))),
        ("one request a turn", set(|builder| builder.request_budget(1))),
        ("the longest tick", set(|builder| builder.tick(Duration::from_secs(24 * 3600)))),
        ("the shortest tick", set(|builder| builder.tick(Duration::from_micros(1)))),
        ("the smallest wheel", set(|builder| builder.wheel_size(2))),
        ("no look at the wall clock", set(|builder| builder.wall_clock_check_interval(Duration::MAX))),
        ("stuck at once", set(|builder| builder.stuck_after(Duration::from_nanos(1)))),
        ("chosen jitter", set(|builder| builder.jitter_seed(0))),
        ("the same name", set(|builder| builder.name("durable"))),
        ("drained", after(|timers| drop(timers.drain()))),
        (
            "being drained",
            after(|timers| {
                let timers = timers.clone();
                actix::spawn(async move { drop(timers.drain_within(ms(2_000_000_000)).await) });
            }),
        ),
        ("drained by a message", after(|timers| timers.addr().do_send(Drain::within(ms(300))))),
        (
            "stopped",
            Box::new(|builder| {
                let arbiter = Arbiter::new();
                let timers = builder.start_on(&arbiter.handle()).unwrap();
                arbiter.stop();
                arbiter.join().unwrap();
                timers
            }),
        ),
    ]
}

/// The results of a scenario.
#[derive(Debug, PartialEq)]
struct ChangeOutcome {
    attempts: Vec<(u64, u32, u32)>,
    before_the_stop: Counts,
    stopped_at: Option<u64>,
    in_the_next_life: Vec<(u64, u32, u32)>,
}

/// Runs a scenario: many timers due at once, retries, a time-out, a repetition, one timer beyond the horizon, and a
/// stop that does not wait for a handler which never ends. `meddle` is called now and then.
fn scenario(given: Option<&Given>, meddle: impl Fn(&Timers, &DurableTimers)) -> ChangeOutcome {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    let first_life = life(0, async |clock| {
        let builder = diary.builder(&disk, &clock);
        let given = given.map(|given| given(TimerActor::builder().clock(clock.clone())));
        let builder = match &given {
            Some(given) => builder.timers(given.clone()),
            None => builder,
        };
        let timers = builder.start().unwrap();
        let meddle = || given.iter().for_each(|given| meddle(given, &timers));
        notes(&timers, ROUTE, (0..500).map(|note| (note, 100))).await;
        (0..10).for_each(|note| diary.script(note, [Act::Fail]));
        diary.script(600, [Act::Hang]);
        diary.script(900, [Act::Hang]);
        let _ = timers.schedule_at_fixed_rate(ROUTE, ms(10_000), Note(700)).await.unwrap();
        notes(&timers, ROUTE, [(600, 150), (800, 90_000), (900, 94_900)]).await;
        meddle();
        for time in [99, 100, 150, 1149, 1300, 15_000, 80_000, 95_000] {
            run_to(&clock, time).await;
            meddle();
        }
        let before_the_stop = timers.counts().await.unwrap();
        let stopping = timers.clone();
        let stopped = actix::spawn(async move { stopping.stop_within(ms(500)).await });
        clock.settle().await;
        meddle();
        let mut stopped_at = None;
        for time in [95_000, 95_499, 95_500] {
            run_to(&clock, time).await;
            stopped_at = stopped_at.or_else(|| stopped.is_finished().then_some(time));
        }
        (before_the_stop, stopped_at)
    });
    let mut attempts = diary.attempts();
    let before = attempts.len();
    let in_the_next_life = life(95_600, async |clock| {
        let _timers = diary.timers(&disk, &clock);
        run_to(&clock, 101_000).await;
        diary.attempts()[before..].to_vec()
    });
    attempts.sort_unstable();
    ChangeOutcome { attempts, before_the_stop: first_life.0, stopped_at: first_life.1, in_the_next_life }
}

fn in_peace(_: &Timers, _: &DurableTimers) {}

#[test]
fn timers_are_delivered_with_any_settings_of_the_timer_actor() {
    let expected = scenario(None, in_peace);
    let of = |time: u64, from: u32, attempt: u32| {
        expected.attempts.iter().filter(|(at, note, tried)| (*at, *tried) == (time, attempt) && *note >= from).count()
    };
    assert_eq!((of(100, 0, 1), of(200, 0, 2), of(150, 600, 1), of(1250, 600, 2)), (500, 10, 1, 1));
    assert_eq!((of(10_000, 700, 1), of(90_000, 700, 1), of(90_000, 800, 1), of(94_900, 900, 1)), (1, 2, 1, 1));
    assert_eq!(expected.in_the_next_life, [(95_600, 900, 2), (100_000, 700, 1)]);
    assert_eq!((expected.before_the_stop.pending, expected.stopped_at), (2, Some(95_500)));
    let differ: Vec<_> = given()
        .iter()
        .filter_map(|(name, given)| {
            let outcome = scenario(Some(given), in_peace);
            let delivered = outcome.attempts.len();
            (outcome != expected).then(|| format!("{name}: {delivered} of {}", expected.attempts.len()))
        })
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn users_cannot_cancel_move_or_drain_internal_timers() {
    let all = TimerFilter::new();
    let meddlers: [fn(&Timers, &DurableTimers, &TimerFilter); 5] = [
        |given, _, all| given.list(all).iter().for_each(|timer| _ = given.cancel(timer.id)),
        |given, _, all| given.list(all).iter().for_each(|timer| _ = given.reschedule_after(timer.id, Duration::MAX)),
        |given, durable, _| _ = given.cancel_all_for(durable.addr()),
        |given, durable, _| given.addr().do_send(CancelAllFor::new(durable.addr())),
        |given, _, _| drop(given.drain()),
    ];
    let expected = scenario(None, in_peace);
    let plain: Given = Box::new(|builder| builder.start().unwrap());
    for (number, meddler) in meddlers.iter().enumerate() {
        let outcome = scenario(Some(&plain), |given, durable| meddler(given, durable, &all));
        let (delivered, of) = (outcome.attempts.len(), expected.attempts.len());
        assert!(outcome == expected, "meddler {number}: {delivered} of {of} deliveries");
    }
}

#[test]
fn the_given_timer_actor_shows_no_internal_timers() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    life(0, async |clock| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let given = TimerActor::builder().name("shop").clock(clock.clone());
        let given = metrics::with_local_recorder(&recorder, || given.install()).unwrap();
        let (_listener, letters) = support::listen(&given);
        let builder = diary.builder(&disk, &clock).timers(given.clone());
        let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
        diary.script(1, [Act::Hang]);
        notes(&timers, ROUTE, (0..200).map(|number| (number / 2, 1000 + 1000 * u64::from(number % 2)))).await;
        let is_empty = async || {
            assert_eq!(given.list(&TimerFilter::new()).len(), 0);
            assert_eq!(given.list(&TimerFilter::new().actor(timers.addr())), []);
            assert_eq!(given.addr().send(ListTimers(TimerFilter::new())).await.unwrap(), []);
            assert_eq!(TimerActor::from_registry().send(ListTimers(TimerFilter::new())).await.unwrap(), []);
            assert_eq!(given.cancel_all_for(timers.addr()), 0);
            assert_eq!(given.cancel_group(TimerGroup::from("durable")), 0);
            let seen = given.snapshot();
            assert_eq!((seen.counters, seen.owners), (Default::default(), 0));
            let page = scrape(|| recorder.handle().render());
            let counted: f64 = page
                .lines()
                .filter(|line| line.contains("timer=\"shop\"") && !line.contains("rejected"))
                .filter(|line| ["_total", "_count", "pending"].iter().any(|name| line.contains(name)))
                .filter(|line| !line.contains("wakeups") && !line.contains("advance"))
                .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
                .sum();
            assert_eq!(counted, 0.0, "{page}");
        };
        is_empty().await;
        run_to(&clock, 1500).await;
        is_empty().await;
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.parked, counts.dead), (101, 0, 0));
        let pages = timers.list(DurableFilter::new().limit(1000)).await.unwrap();
        let in_progress = pages.timers.iter().filter(|timer| timer.state == DurableState::InFlight).count();
        assert_eq!((pages.timers.len(), in_progress), (101, 1), "durable timers are listed as themselves");
        assert_eq!(given.drain().len(), 0);
        run_to(&clock, 3000).await;
        is_empty().await;
        assert_eq!(diary.len(), 201, "one of them twice");
        timers.stop().await.unwrap();
        is_empty().await;
        assert_eq!(letters.try_iter().count(), 0);
    });
}

#[test]
fn a_given_timer_actor_of_the_same_name_keeps_its_series() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    life(0, async |clock| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let given = TimerActor::builder().name("post").capacity(7).tick(ms(20)).clock(clock.clone());
        let given = metrics::with_local_recorder(&recorder, || given.start()).map(with_one_timer).unwrap();
        let builder = diary.builder(&disk, &clock).timers(given).name("post");
        let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
        notes(&timers, ROUTE, (0..10).map(|note| (note, 1000))).await;
        clock.settle().await;
        let expect = |name: &str, timer: &str, value: f64| {
            let found = metric(&scrape(|| page.render()), name, &format!("timer=\"{timer}\""));
            assert_eq!(found, value, "{name} of {timer}");
        };
        expect("capacity", "post", 7.0);
        expect("tick_seconds", "post", 0.02);
        expect("pending", "post", 1.0);
        expect("scheduled_total", "post", 1.0);
        expect("store_pending", "post", 10.0);
        // One alarm for all.
        expect("pending", "post (durable)", 1.0);
        expect("tick_seconds", "post (durable)", 0.001);
    });
}

/// They are not in memory: no look finds them.
#[test]
fn timers_without_a_recipient_are_overdue_and_none_are_after_the_stop() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let shown = |name: &str| metric(&scrape(|| page.render()), name, "timer=\"post\"");
        for life in 0..2 {
            let handler = handled_by::<Note>(async |_| std::future::pending().await);
            let builder = DurableTimers::builder(disk.open()).open_route::<Note>("later").open_route::<Note>("other");
            let builder = builder.route("slow", handler).name("post").clock(clock.clone());
            let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
            if life == 0 {
                notes(&timers, "slow", [(10, 500)]).await;
                notes(&timers, "other", [(11, 2000)]).await;
                notes(&timers, "later", (0..8).map(|note| (note, 1000))).await;
            }
            run_to(&clock, 5000 + 1000 * life).await;
            assert_eq!((shown("store_pending"), shown("store_overdue_seconds")), (10.0, 4.0 + life as f64));
            timers.pause(Pause::route("later")).await.unwrap();
            clock.settle().await;
            assert_eq!(shown("store_overdue_seconds"), 3.0 + life as f64, "they are to wait, and the other is not");
            timers.pause(Pause::route("other")).await.unwrap();
            clock.settle().await;
            assert_eq!(shown("store_overdue_seconds"), 0.0);
            timers.resume(&PauseTarget::Route("other".into())).await.unwrap();
            timers.resume(&PauseTarget::Route("later".into())).await.unwrap();
            timers.stop_within(Duration::ZERO).await.unwrap();
            assert_eq!(
                (shown("store_pending"), shown("store_overdue_seconds")),
                (0.0, 0.0),
                "of a store that is closed"
            );
        }
    });
}

#[test]
fn a_timer_is_overdue_behind_many_of_a_paused_route() {
    life(0, async |clock| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let builder = DurableTimers::builder(MemoryDisk::new().open()).name("post").clock(clock.clone());
        let builder = builder.open_route::<Note>("later").open_route::<Note>("other");
        let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
        timers.pause(Pause::route("later")).await.unwrap();
        notes(&timers, "later", (0..1500).map(|note| (note, 1000))).await;
        notes(&timers, "other", [(0, 2000)]).await;
        run_to(&clock, 5000).await;
        assert_eq!(metric(&scrape(|| page.render()), "store_overdue_seconds", "timer=\"post\""), 3.0);
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_step_of_the_clock_is_noticed_without_the_given_timer_actor() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    life(0, async |clock| {
        let ahead = Arc::new(Mutex::new(Duration::ZERO));
        let seen = Arc::clone(&ahead);
        // Nobody is notified of its steps.
        let unsteady = ClockWithWall(clock.clone(), move |clock: &ManualClock| clock.wall() + *seen.lock().unwrap());
        let given = TimerActor::builder().wall_clock_check_interval(Duration::MAX).clock(unsteady).start();
        let timers = diary.builder(&disk, &clock).timers(given.unwrap()).horizon(ms(10_000_000)).start().unwrap();
        let _ = timers.schedule_at(ROUTE, at(3_600_000), Note(1)).await.unwrap();
        // The committer arms it before it answers the next query.
        timers.counts().await.unwrap();
        run_to(&clock, 1000).await;
        *ahead.lock().unwrap() = ms(3_700_000);
        run_to(&clock, 11_000).await;
        // The claim was made before this query.
        timers.counts().await.unwrap();
        clock.settle().await;
        assert_eq!(diary.len(), 1, "ten seconds after the step");
        timers.stop().await.unwrap();
    });
}

/// On the system clock they would rarely be the intended timers.
#[test]
fn contexts_are_rejected_beside_a_clock_of_durable_timers() {
    support::in_real_time(async {
        let clock = ManualClock::new();
        let _durable = DurableTimers::builder(MemoryDisk::new().open()).clock(clock.clone()).start().unwrap();
        let schedule = |_: &mut Probe<_>, ctx: &mut Context<Probe<_>>| {
            let scheduled = ctx.timer(TimerOptions::new()).try_schedule(ms(1), support::Note(1));
            scheduled.map(drop).map_err(|rejected| rejected.to_string())
        };
        let rejected = support::run(&probe().0, schedule).await.unwrap_err();
        assert!(rejected.contains("durable timers") && rejected.contains("`TimerActorBuilder::install`"), "{rejected}");
        TimerActor::builder().clock(clock).install().unwrap();
        assert!(support::run(&probe().0, schedule).await.is_ok());
    });
}
