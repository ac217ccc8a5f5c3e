//! Conformance scenarios through the timer actor: cancels, and handlers that cancel or re-arm timers due with them.
//!
//! In real time nothing depends on the speed of the machine: tests wait for events, and assert only that nothing is
//! early, doubled or lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{
    Cancel, CancelOutcome, Drain, ScheduleAfter, ScheduleError, TimerActor, TimerContext, TimerId, TimerOptions, Timers,
};
use support::{Log, Note, PATIENCE, Probe, Run, StopWatch, Way, eventually, in_virtual_time, ms, run, with_probe};

/// Only the first of several cancels succeeds, and none after the delivery.
/// Scenario O-17.
#[test]
fn cancel_before_twice_and_after() {
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            let a = world.schedule(way, &addr, ms(10_000), "A").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::Cancelled);
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::NotFound);
            for _ in 0..10 {
                let id = world.schedule(way, &addr, ms(1000), "one of ten").await.unwrap();
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            }
            let b = world.schedule(way, &addr, ms(10), "B").await.unwrap();
            world.run_to(10).await;
            assert_eq!(log.take(), [("B", 10)]);
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::AlreadyDelivered);
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::AlreadyDelivered);
            world.run_to(20_000).await;
            assert_eq!(log.take(), []);
            assert_eq!(world.pending(), 0);
        });
    }
}

/// Ids that were never issued, and ids whose timer's storage was reused, cancel nothing.
/// Scenario O-18.
#[test]
fn unknown_ids_and_an_id_whose_storage_was_used_again() {
    for way in [Way::Direct, Way::Message] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(|name, ctx| {
                    if *name == "periodic" {
                        ctx.schedule_after(ms(6000), Note("periodic"));
                    }
                });
            });
            let r = world.schedule(way, &addr, ms(10_000), "R").await.unwrap();
            assert_eq!(world.cancel(way, &addr, TimerId::new()).await, CancelOutcome::NotFound);
            for bit in [0, 7, 40, 61] {
                let guessed = uuid::Uuid::from_u128(r.as_uuid().as_u128() ^ 1 << bit);
                let guessed = TimerId::from_uuid(guessed).unwrap();
                assert_eq!(world.cancel(way, &addr, guessed).await, CancelOutcome::NotFound);
            }

            let a = world.schedule(way, &addr, ms(50), "A").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::Cancelled);
            world.schedule(way, &addr, ms(60), "B").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::NotFound);

            for _ in 0..10 {
                world.schedule(way, &addr, ms(6000), "periodic").await.unwrap();
            }
            // These calls are the same for both ways.
            if way == Way::Direct {
                for _ in 0..262_144 {
                    let id = world.timers.schedule_after(&addr, ms(7000), Note("one-shot"));
                    assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
                }
            }
            for _ in 0..30 {
                let id = world.schedule(way, &addr, ms(7000), "one-shot").await.unwrap();
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::NotFound);
            }
            assert_eq!(world.pending(), 12);
            world.run_to(60).await;
            assert_eq!(log.take(), [("B", 60)]);
            world.run_to(10_000).await;
            let mut expected = vec![("periodic", 6000); 10];
            expected.push(("R", 10_000));
            assert_eq!(log.take(), expected);
            assert_eq!(world.pending(), 10);
        });
    }
}

/// A message with a number, for actors that report over a channel.
#[derive(Message)]
#[rtype(result = "()")]
struct Numbered(usize);

/// Reports each message with the time at which its handler started; may block there.
struct Reporter {
    report: mpsc::Sender<(usize, Instant)>,
    block: Option<mpsc::Receiver<()>>,
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

impl Handler<Numbered> for Reporter {
    type Result = ();

    fn handle(&mut self, Numbered(number): Numbered, _: &mut Self::Context) {
        self.report.send((number, Instant::now())).unwrap();
        if let Some(block) = self.block.take() {
            block.recv().unwrap();
        }
    }
}

/// Starts a reporter on an arbiter of its own.
fn reporter(block: Option<mpsc::Receiver<()>>) -> (Arbiter, Addr<Reporter>, mpsc::Receiver<(usize, Instant)>) {
    let arbiter = Arbiter::new();
    let (report, reports) = mpsc::channel();
    let addr = Reporter::start_in_arbiter(&arbiter.handle(), move |_| Reporter { report, block });
    (arbiter, addr, reports)
}

/// Ten timers are cancelled from outside in the very tick that fires them: each is either cancelled or delivered, and
/// the counters count each once.
/// Scenario O-19.
#[test]
fn cancelled_inside_the_very_tick_that_fires_it() {
    support::in_real_time(async {
        let service = Arbiter::new();
        let timers = TimerActor::builder().tick(ms(100)).capacity(11).start_on(&service.handle()).unwrap();
        let (release, block) = mpsc::channel();
        let (blocked_arbiter, blocked, starts) = reporter(Some(block));
        let (arbiter, addr, reports) = reporter(None);

        timers.schedule_after(&blocked, ms(200), Numbered(0));
        let ids: Vec<TimerId> =
            (1..=10).map(|number| timers.schedule_after(&addr, ms(200), Numbered(number))).collect();
        starts.recv_timeout(PATIENCE).unwrap();
        let stopped: Vec<bool> = ids.iter().map(|id| timers.cancel(*id).is_cancelled()).collect();

        let mut delivered = [false; 10];
        for _ in stopped.iter().filter(|stopped| !**stopped) {
            let (number, _) = reports.recv_timeout(PATIENCE).unwrap();
            assert!(!std::mem::replace(&mut delivered[number - 1], true), "{number} twice");
        }
        for (stopped, delivered) in stopped.iter().zip(delivered) {
            assert_ne!(*stopped, delivered);
        }
        // A handler on another thread may run before its message is counted.
        eventually(|| timers.snapshot().pending() == 0).await;
        let counters = timers.snapshot().counters;
        assert!(counters.balance());
        assert_eq!(counters.delivered + counters.cancelled, 11);

        release.send(()).unwrap();
        for _ in 0..11 {
            timers.schedule_after(&addr, ms(3_600_000), Numbered(11));
        }
        let rejected = timers.timer(&addr, TimerOptions::new()).try_schedule(ms(3_600_000), Numbered(12)).unwrap_err();
        assert!(matches!(rejected, ScheduleError::CapacityReached { capacity: 11, message: Numbered(12) }));
        for arbiter in [service, blocked_arbiter, arbiter] {
            arbiter.stop();
            arbiter.join().unwrap();
        }
        assert!(reports.try_recv().is_err(), "nothing else was delivered");
    });
}

/// Timers made on all cores, cancelled 100 µs before their common deadline: each is either cancelled or delivered.
/// Scenario O-20.
#[test]
fn a_burst_of_cancels_just_before_a_common_deadline() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let n = 301 * cores;
    support::in_real_time(async {
        let service = Arbiter::new();
        let timers = TimerActor::builder().start_on(&service.handle()).unwrap();
        let (arbiter, addr, reports) = reporter(None);
        let deadline = Instant::now() + ms(3000);

        let makers: Vec<_> = (0..cores)
            .map(|core| {
                let (timers, addr) = (timers.clone(), addr.clone());
                std::thread::spawn(move || {
                    (0..301)
                        .map(|i| {
                            let delay = deadline.saturating_duration_since(Instant::now());
                            timers.schedule_after(&addr, delay, Numbered(core * 301 + i))
                        })
                        .collect::<Vec<TimerId>>()
                })
            })
            .collect();
        let ids: Vec<TimerId> = makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect();
        assert_eq!(ids.len(), n);

        let canceller = std::thread::spawn({
            let timers = timers.clone();
            move || {
                let begin = deadline - Duration::from_micros(100);
                std::thread::sleep((begin - ms(2)).saturating_duration_since(Instant::now()));
                while Instant::now() < begin {
                    std::hint::spin_loop();
                }
                ids.iter().map(|id| timers.cancel(*id).is_cancelled()).collect::<Vec<bool>>()
            }
        });
        let stopped = canceller.join().unwrap();

        let mut delivered = vec![false; n];
        for _ in stopped.iter().filter(|stopped| !**stopped) {
            let (number, at) = reports.recv_timeout(PATIENCE).unwrap();
            assert!(at >= deadline, "{number} came {:?} early", deadline - at);
            assert!(!std::mem::replace(&mut delivered[number], true), "{number} twice");
        }
        for (number, (stopped, delivered)) in stopped.iter().zip(&delivered).enumerate() {
            assert_ne!(stopped, delivered, "{number}");
        }
        eventually(|| timers.snapshot().pending() == 0).await;
        for arbiter in [service, arbiter] {
            arbiter.stop();
            arbiter.join().unwrap();
        }
        assert!(reports.try_recv().is_err(), "nothing else was delivered");
    });
}

/// A hundred targets, each of which cancels all the other timers: the counters add up for every budget.
/// Scenario O-35.
#[test]
fn each_of_a_hundred_targets_cancels_the_other_99() {
    for budget in [1, 7, 1024] {
        let builder = || TimerActor::builder().wheel_size(64).expiry_budget(budget);
        in_virtual_time(builder, |world| async move {
            let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
            let stopped = Arc::new(AtomicUsize::new(0));
            let mut probes = Vec::new();
            for name in 0..100 {
                let (all, stopped, timers) = (Arc::clone(&ids), Arc::clone(&stopped), world.timers.clone());
                probes.push(world.probe_with(|probe: &mut Probe<usize>| {
                    probe.hook = Box::new(move |name, _| {
                        for (other, id) in all.lock().unwrap().iter().enumerate() {
                            if other != *name && timers.cancel(*id).is_cancelled() {
                                stopped.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    });
                }));
                ids.lock().unwrap().push(world.after(&probes[name].0, 10, name));
            }
            world.run_to(11).await;
            let deliveries: usize = probes.iter().map(|(_, log)| log.len()).sum();
            assert!(deliveries >= 1);
            assert_eq!(deliveries + stopped.load(Ordering::SeqCst), 100);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.delivered, counters.cancelled), (deliveries as u64, 100 - deliveries as u64));
            assert_eq!(world.pending(), 0);
        });
    }
}

/// All hundred belong to one actor: the first of them cancels the other 99, though all of them are due.
/// Scenario O-35.
#[test]
fn the_first_of_a_hundred_cancels_the_other_99() {
    let builder = || TimerActor::builder().wheel_size(64);
    in_virtual_time(builder, |world| async move {
        let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
        let outcomes: Arc<Mutex<Vec<CancelOutcome>>> = Arc::default();
        let (all, answers) = (Arc::clone(&ids), Arc::clone(&outcomes));
        let (addr, log) = world.probe_with(|probe| {
            probe.hook = Box::new(move |_, ctx: &mut Context<Probe<usize>>| {
                answers.lock().unwrap().extend(all.lock().unwrap().iter().map(|id| ctx.cancel_timer(*id)));
            });
        });
        *ids.lock().unwrap() =
            run(&addr, |_, ctx| (0..100).map(|name| ctx.schedule_after(ms(10), Note(name))).collect::<Vec<TimerId>>())
                .await;
        world.run_to(11).await;
        assert_eq!(log.take(), [(0, 10)]);
        let outcomes = outcomes.lock().unwrap();
        assert_eq!(outcomes[0], CancelOutcome::AlreadyDelivered, "the one whose handler runs");
        assert_eq!(outcomes[1..], [CancelOutcome::Cancelled; 99]);
        assert_eq!(world.pending(), 0);
    });
}

/// Re-arming at zero delay does not starve the messages due with it or after it: first L, then B, then L again and
/// again.
/// Scenario O-36.
#[test]
fn re_arming_at_zero_delay_must_not_starve_the_rest() {
    for way in [Way::Direct, Way::Context] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (timers, mut left) = (world.timers.clone(), 1000);
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(move |name, ctx: &mut Context<Probe<&str>>| {
                    if *name == "L" && left > 0 {
                        left -= 1;
                        match way {
                            Way::Context => ctx.schedule_after(Duration::ZERO, Note("L")),
                            _ => timers.schedule_after(ctx.address(), Duration::ZERO, Note("L")),
                        };
                    }
                });
            });
            for (name, delay) in [("L", 10), ("B", 10), ("C", 11)] {
                world.schedule(way, &addr, ms(delay), name).await.unwrap();
            }
            world.run_to(11).await;
            let mut expected = vec![("L", 10), ("B", 10)];
            expected.extend([("L", 10); 1000]);
            expected.push(("C", 11));
            assert_eq!(log.take(), expected, "{way:?}");
        });
    }
}

/// An actor that re-arms itself at zero delay without end still gets its other timers and a request to stop.
/// Scenario O-36.
#[test]
fn re_arming_without_end_on_the_real_clock_lets_a_stop_through() {
    support::in_real_time(async {
        let timers = TimerActor::builder().install().unwrap();
        let mut probe = Probe::new(StopWatch::Source(Arc::default()));
        let (rounds, others) = (Arc::new(AtomicUsize::new(0)), Log::default());
        let (round, other) = (Arc::clone(&rounds), others.clone());
        probe.hook = Box::new(move |name: &&str, ctx: &mut Context<Probe<&str>>| match *name {
            "L" => {
                round.fetch_add(1, Ordering::SeqCst);
                ctx.schedule_after(Duration::ZERO, Note("L"));
            }
            name => other.push(name, 0),
        });
        let stopped = Arc::clone(&probe.stopped);
        let addr = probe.start();
        run(&addr, |_, ctx| {
            for (name, delay) in [("L", 10), ("B", 10), ("C", 11)] {
                ctx.schedule_after(ms(delay), Note(name));
            }
        })
        .await;
        eventually(|| others.len() == 2 && rounds.load(Ordering::SeqCst) > 1000).await;
        assert_eq!(others.names(), ["B", "C"]);
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        eventually(|| stopped.load(Ordering::SeqCst)).await;
        let drained =
            tokio::time::timeout(PATIENCE, timers.addr().send(Drain::now())).await.expect("nor is the service starved");
        assert!(drained.unwrap().is_empty(), "its timers ended with the actor");
    });
}

/// A drain stops a recipient's timer that is re-armed at zero delay without end.
/// Scenario O-36.
#[test]
fn re_arming_without_end_on_the_real_clock_lets_a_drain_through() {
    struct Loop {
        timers: Timers,
        rejected: Option<tokio::sync::oneshot::Sender<usize>>,
        rounds: usize,
    }
    impl Actor for Loop {
        type Context = Context<Self>;
    }
    impl Handler<Numbered> for Loop {
        type Result = ();

        fn handle(&mut self, _: Numbered, ctx: &mut Self::Context) {
            self.rounds += 1;
            if let Err(ScheduleError::Stopped { message: Numbered(round) }) = self
                .timers
                .timer(ctx.address(), TimerOptions::new())
                .try_schedule(Duration::ZERO, Numbered(self.rounds))
            {
                self.rejected.take().unwrap().send(round).unwrap();
            }
        }
    }
    support::in_real_time(async {
        let timers = TimerActor::builder().start().unwrap();
        let (rejected, rejection) = tokio::sync::oneshot::channel();
        let addr = Loop { timers: timers.clone(), rejected: Some(rejected), rounds: 0 }.start();
        timers.addr().do_send(ScheduleAfter::new(&addr, ms(10), Numbered(0)));
        while timers.snapshot().counters.delivered < 1000 {
            tokio::task::yield_now().await;
        }
        let drained =
            tokio::time::timeout(PATIENCE, timers.addr().send(Drain::now())).await.expect("the drain is not starved");
        // Either the drain found the next round pending, or the handler's request was rejected.
        if drained.unwrap().is_empty() {
            tokio::time::timeout(PATIENCE, rejection).await.expect("the loop ends").unwrap();
        }
        let counters = timers.snapshot().counters;
        assert!(counters.balance());
        assert_eq!(counters.pending, 0);
        let outcome = timers.addr().send(Cancel(TimerId::new())).await;
        assert_eq!(outcome, Ok(CancelOutcome::NotFound));
    });
}
