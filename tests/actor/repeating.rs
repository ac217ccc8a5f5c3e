//! Repeating timers in virtual time: the scenarios of periodic timers (O-51 to O-54, O-57 b to e), the effects of a
//! cancel, a reschedule and an end, and the counters.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers::{
    CancelOutcome, MissedTickBehavior, Repeat, ScheduleAtFixedRate, ScheduleError, ScheduleWithFixedDelay, TimerActor,
    TimerContext, TimerOptions, TimerState,
};
use support::repeat::{Kind, times};
use support::{Note, Way, in_virtual_time, ms, run, with_probe};

fn ways_and_kinds() -> impl Iterator<Item = (Way, Kind)> {
    Way::ALL.into_iter().flat_map(|way| Kind::ALL.map(|kind| (way, kind)))
}

/// They are skipped by default.
/// Scenario O-51.
#[test]
fn missed_ticks_are_skipped_made_up_for_or_delay_the_rest() {
    assert_eq!(Repeat::from(ms(1)), Repeat::every(ms(1)).missed_ticks(MissedTickBehavior::Skip));
    let builder = || TimerActor::builder().wheel_size(20);
    in_virtual_time(builder, async |world| {
        for way in Way::ALL {
            let start = world.now();
            let behaviors = [
                (MissedTickBehavior::Skip, vec![950, 1200, 1500, 1800]),
                (MissedTickBehavior::Burst, vec![950, 950, 1200, 1500, 1800]),
                (MissedTickBehavior::Delay, vec![950, 1250, 1550, 1850]),
            ];
            let mut probes = Vec::new();
            for (behavior, _) in &behaviors {
                let (addr, log) = world.probe();
                let every = Repeat::every(ms(300)).missed_ticks(*behavior);
                let id = world.repeat(way, Kind::Rate, &addr, every, Note(())).await.unwrap();
                probes.push((addr, log, id));
            }
            world.run_to(start + 300).await;
            for (_, log, _) in &probes {
                assert_eq!(times(log), [start + 300]);
            }
            world.jump_to(start + 950).await;
            world.run_to(start + 2000).await;
            for ((_, log, id), (behavior, expected)) in probes.iter().zip(&behaviors) {
                let since_start: Vec<u64> = times(log).into_iter().map(|at| at - start).collect();
                assert_eq!(since_start, *expected, "{behavior:?} by {way:?}");
                assert_eq!(world.timers.cancel(*id), CancelOutcome::Cancelled);
            }
            assert_eq!(world.pending(), 0);
        }
    });
}

/// Scenario O-52.
#[test]
fn a_fixed_rate_stays_on_its_grid_with_a_coarse_tick() {
    let builder = || TimerActor::builder().tick(ms(10)).wheel_size(8);
    in_virtual_time(builder, async |world| {
        for way in Way::ALL {
            let start = world.now();
            let (addr, log) = world.probe();
            let id = world.repeat(way, Kind::Rate, &addr, ms(25), Note(())).await.unwrap();
            world.run_to(start + 5000).await;
            let expected: Vec<u64> = (1..=200).map(|k| start + (25 * k as u64).div_ceil(10) * 10).collect();
            assert_eq!(times(&log), expected, "{way:?}");
            assert!(world.timers.cancel(id).is_cancelled());
        }
    });
}

/// It does not wait for the next tick; the grid begins with the call, and the delay with the delivery.
#[test]
fn a_first_tick_now_comes_once_and_at_once() {
    let builder = || TimerActor::builder().tick(ms(10));
    in_virtual_time(builder, async |world| {
        for (way, kind, later) in [
            (Way::Direct, Kind::Rate, [40, 70, 90]),
            (Way::Message, Kind::Rate, [40, 70, 90]),
            (Way::Context, Kind::Rate, [40, 70, 90]),
            (Way::Context, Kind::Delay, [40, 70, 100]),
        ] {
            let start = world.now().next_multiple_of(1000);
            world.run_to(start + 13).await;
            let (addr, log) = world.probe();
            let every = Repeat::every(ms(25)).first_after(Duration::ZERO);
            let id = world.repeat(way, kind, &addr, every, Note(())).await.unwrap();
            world.settle().await;
            assert_eq!(times(&log), [start + 13], "{way:?}");
            world.run_to(start + 100).await;
            let expected: Vec<u64> = later.map(|at| start + at).into_iter().filter(|at| *at <= start + 100).collect();
            assert_eq!(times(&log), expected, "{way:?}, {kind:?}");
            assert!(world.timers.cancel(id).is_cancelled());
        }
    });
}

/// Scenario O-53, of whose second family only the first tenth.
#[test]
fn a_family_of_periods_fires_exactly_as_often_as_it_fits_in() {
    families_fire(5000, 5685);
}

/// Scenario O-53.
#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn a_family_of_periods_fires_as_often_in_full_size() {
    families_fire(50_000, 57_383);
}

/// The second family runs to this time, and then has fired so often.
fn families_fire(end: u64, sum: usize) {
    let primes = vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97];
    let families = [
        (50, 5322, primes, 9495),
        (50, end, vec![1, 7, 191, 1337], sum),
        (49, 5333, (1..=10).map(|k| 5 * k).collect(), 3091),
    ];
    for (from, to, periods, sum) in families {
        let builder = || TimerActor::builder().wheel_size(8);
        in_virtual_time(builder, async |world| {
            world.run_to(from).await;
            let (addr, log) = world.probe::<u64>();
            for period in &periods {
                world.repeat(Way::Direct, Kind::Rate, &addr, ms(*period), Note(*period)).await.unwrap();
            }
            world.run_to(to).await;
            let names = log.names();
            for period in &periods {
                let count = names.iter().filter(|name| *name == period).count() as u64;
                assert_eq!(count, (to - from) / period, "{period}");
            }
            assert_eq!((names.len(), world.pending()), (sum, periods.len() as u64));
        });
    }
}

/// Scenario O-54.
#[test]
fn a_timer_can_be_cancelled_before_and_after_its_first_delivery() {
    in_virtual_time(TimerActor::builder, async |world| {
        for (way, kind) in [(Way::Direct, Kind::Rate), (Way::Message, Kind::Delay), (Way::Context, Kind::Rate)] {
            let (addr, log) = world.probe();
            let start = world.now();
            let every = Repeat::every(ms(10)).first_after(ms(200));
            let id = world.repeat(way, kind, &addr, every, Note(())).await.unwrap();
            world.run_to(start + 10).await;
            assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            world.run_to(start + 300).await;
            assert_eq!(log.len(), 0);

            let every = Repeat::every(ms(500)).first_after(ms(90));
            let id = world.repeat(way, kind, &addr, every, Note(())).await.unwrap();
            world.run_to(start + 590).await;
            assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::NotFound);
            world.run_to(start + 1300).await;
            assert_eq!(times(&log), [start + 390]);

            let every = Repeat::every(ms(300)).first_after(ms(1000));
            let id = world.repeat(way, kind, &addr, every, Note(())).await.unwrap();
            world.run_to(start + 1300 + 1600).await;
            assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            world.run_to(start + 5000).await;
            assert_eq!(times(&log), [1000, 1300, 1600].map(|at| start + 1300 + at));
            assert_eq!(world.pending(), 0);
        }
    });
}

/// A period of zero, and repetitions that are never due.
/// Scenario O-54.
#[test]
fn an_impossible_repetition_is_rejected_and_its_message_handed_back() {
    in_virtual_time(TimerActor::builder, async |world| {
        world.run_to(1000).await;
        let (addr, log) = world.probe();
        for (way, kind) in ways_and_kinds() {
            for every in [
                Repeat::every(Duration::ZERO).first_after(ms(100)),
                Repeat::every(ms(10)).times(0),
                Repeat::every(ms(10)).until(world.wall(world.now() + 9)),
                Repeat::every(ms(10)).until(world.wall(500)),
                Repeat::every(ms(10)).until(std::time::SystemTime::UNIX_EPOCH - ms(5)),
            ] {
                let rejected = world.repeat(way, kind, &addr, every, Note(7)).await.unwrap_err();
                match every == Repeat::every(Duration::ZERO).first_after(ms(100)) {
                    true => assert!(matches!(rejected, ScheduleError::ZeroPeriod { .. }), "{rejected:?}"),
                    false => assert!(matches!(rejected, ScheduleError::NeverDue { .. }), "{rejected:?}"),
                }
                assert_eq!(rejected.into_message().next_message(), Note(7));
            }
        }
        world.run_to(1200).await;
        assert_eq!((log.len(), world.timers.snapshot().counters.accepted), (0, 0));
    });
}

/// Scenario O-54.
#[test]
fn the_longest_period_delivers_once_and_then_waits_for_ever() {
    in_virtual_time(TimerActor::builder, async |world| {
        for (way, kind) in ways_and_kinds() {
            let (addr, log) = world.probe();
            let start = world.now();
            let every = Repeat::every(Duration::MAX).first_after(Duration::ZERO);
            let id = world.repeat(way, kind, &addr, every, Note(())).await.unwrap();
            world.run_to(start + 1_000_000).await;
            assert_eq!((times(&log), world.pending()), (vec![start], 1));
            assert!(world.timers.get(id).unwrap().remaining > Duration::from_secs(1 << 40));
            assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
        }
    });
}

/// Scenario O-57.
#[test]
fn the_clock_passes_exactly_and_repetitions_come_exactly() {
    /// The first delivery, the period, and the number of deliveries in all after so many milliseconds.
    type Case<'a> = (u64, u64, &'a [(u64, usize)]);
    let each_tenth: Vec<_> =
        (1..=5).flat_map(|round| [(10 * round - 1, round as usize - 1), (10 * round, round as usize)]).collect();
    let cases: [Case<'_>; 4] = [
        (10, 10, &each_tenth),
        (0, 5000, &[(12_000, 3)]),
        (5000, 5000, &[(12_000, 2)]),
        (5000, 5000, &[(7000, 1), (8000, 1), (18_000, 3)]),
    ];
    in_virtual_time(TimerActor::builder, async |world| {
        for way in Way::ALL {
            let (addr, log) = world.probe();
            for (first, period, steps) in cases {
                let start = world.now();
                let every = Repeat::every(ms(period)).first_after(ms(first));
                let id = world.repeat(way, Kind::Rate, &addr, every, Note(())).await.unwrap();
                for (passed, deliveries) in steps {
                    world.run_to(start + passed).await;
                    assert_eq!(log.len(), *deliveries, "{way:?}, {first}, {period}, {passed}");
                }
                assert!(world.cancel(way, &addr, id).await.is_cancelled());
                log.take();
            }
            // One of three is cancelled.
            let start = world.now();
            let mut ids = Vec::new();
            for _ in 0..3 {
                ids.push(world.repeat(way, Kind::Rate, &addr, ms(5000), Note(())).await.unwrap());
            }
            world.run_to(start + 7000).await;
            assert_eq!(log.len(), 3);
            assert_eq!(world.cancel(way, &addr, ids[1]).await, CancelOutcome::Cancelled);
            world.run_to(start + 11_000).await;
            assert_eq!(log.len(), 5);
            for id in [ids[0], ids[2]] {
                assert!(world.cancel(way, &addr, id).await.is_cancelled());
            }
        }
    });
}

#[test]
fn a_timer_ends_with_its_last_repetition() {
    in_virtual_time(TimerActor::builder, async |world| {
        for (way, kind) in ways_and_kinds() {
            let before = world.timers.snapshot().counters;
            let start = world.now();
            let (addr, log) = world.probe();
            let so_often = world.repeat(way, kind, &addr, Repeat::every(ms(10)).times(3), Note('n')).await.unwrap();
            let until = Repeat::every(ms(10)).until(world.wall(start + 50));
            let so_long = world.repeat(way, kind, &addr, until, Note('u')).await.unwrap();
            world.run_to(start + 1000).await;
            let (counted, dated): (Vec<_>, Vec<_>) = log.take().into_iter().partition(|(name, _)| *name == 'n');
            let at = |notes: Vec<(char, u64)>| notes.into_iter().map(|(_, at)| at - start).collect::<Vec<_>>();
            assert_eq!(at(counted), [10, 20, 30]);
            assert_eq!(at(dated), [10, 20, 30, 40, 50], "a delivery due at the end is made");
            for id in [so_often, so_long] {
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::AlreadyDelivered);
                assert_eq!(world.timers.get(id), None);
            }
            let after = world.timers.snapshot().counters;
            assert_eq!((after.accepted - before.accepted, after.delivered - before.delivered), (8, 8));
            assert_eq!((after.cancelled - before.cancelled, after.pending), (0, 0));
        }
    });
}

#[test]
fn each_repetition_is_accepted_when_the_one_before_is_delivered() {
    let builder = || TimerActor::builder().capacity(1);
    in_virtual_time(builder, async |world| {
        for way in Way::ALL {
            let before = world.timers.snapshot().counters;
            let start = world.now();
            let (addr, log) = world.probe();
            let timers = world.timers.clone();
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&seen);
            run(&addr, move |probe, _| {
                probe.hook = Box::new(move |_, _| noted.lock().unwrap().push(timers.snapshot().counters));
            })
            .await;
            let id = world.repeat(way, Kind::Rate, &addr, ms(10), Note(())).await.unwrap();
            world.run_to(start + 30).await;
            assert_eq!(times(&log), [10, 20, 30].map(|at| start + at));
            for (number, counters) in (1..).zip(seen.lock().unwrap().iter()) {
                assert!(counters.balance());
                assert_eq!(counters.delivered - before.delivered, number);
                assert_eq!((counters.accepted - before.accepted, counters.pending), (number + 1, 1));
            }
            let rejected = world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(())).unwrap_err();
            assert!(matches!(rejected, ScheduleError::CapacityReached { .. }), "the room is held all the while");
            let info = world.timers.get(id).unwrap();
            assert_eq!((info.state, info.remaining, info.period), (TimerState::Waiting, ms(10), Some(ms(10))));
            assert!(world.timers.cancel(id).is_cancelled());
            world.timers.schedule_after(&addr, ms(1), Note(()));
            world.run_to(start + 100).await;
            assert_eq!(times(&log), [start + 31]);
        }
    });
}

#[test]
fn a_fixed_delay_counts_from_the_handlers_end_or_the_delivery() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, async |world| {
            if !world.is_manual() {
                // Only a manual clock can be moved within a handler.
                return;
            }
            let (addr, log) = world.probe();
            let clock = world.clock().hands.clone();
            let hands = clock.clone();
            run(&addr, move |probe, _| probe.hook = Box::new(move |_, _| hands.jump(ms(6)))).await;
            world.repeat(way, Kind::Delay, &addr, ms(10), Note(())).await.unwrap();
            world.settle().await;
            let after_handler = if way == Way::Context { 6 } else { 0 };
            let mut next = 10;
            for _ in 0..3 {
                clock.jump(ms(next - 1 - world.now()));
                world.settle().await;
                assert_eq!(log.len(), 0);
                clock.jump(ms(1));
                world.settle().await;
                assert_eq!(times(&log), [next], "{way:?}");
                next += after_handler + 10;
            }
        });
    }
}

#[test]
fn jitter_moves_the_whole_grid_and_slack_each_repetition() {
    with_probe(async |world, addr, log| {
        let mut starts = Vec::new();
        for round in 0..20 {
            let spread = TimerOptions::new().jitter(ms(500));
            let start = world.now();
            let id = match round % 2 {
                0 => run(&addr, move |_, ctx| ctx.timer(spread).repeat(ms(100), Note(()))).await,
                _ => world.timers.timer(&addr, spread).repeat(ms(100), Note(())),
            };
            world.run_to(start + 2000).await;
            let at = times(&log);
            assert!((start + 100..=start + 600).contains(&at[0]), "{at:?}");
            assert!(at.windows(2).all(|pair| pair[1] == pair[0] + 100), "{at:?}");
            starts.push(at[0] - start);
            assert!(world.timers.cancel(id).is_cancelled());
        }
        starts.dedup();
        assert!(starts.len() > 2, "each gets another time: {starts:?}");

        let start = world.now();
        let request = ScheduleAtFixedRate::new(&addr, ms(100), Note(())).options(TimerOptions::new().slack(ms(64)));
        world.timers.addr().send(request).await.unwrap().unwrap();
        world.run_to(start + 1100).await;
        let at = times(&log);
        assert_eq!(at.len(), 10);
        for (due, at) in (1..).map(|k| start + 100 * k).zip(at) {
            assert!((due..=due + 64).contains(&at) && at.is_multiple_of(32), "{due} {at}");
        }
    });
}

/// It is the same one after some repetitions.
#[test]
fn requests_tell_their_ids_before_they_are_sent() {
    with_probe(async |world, addr, log| {
        let rate = ScheduleAtFixedRate::new(&addr, ms(10), Note('r'));
        let delay = ScheduleWithFixedDelay::new(&addr, ms(10), Note('d'));
        let ids = [rate.id(), delay.id()];
        let timers = world.timers.addr();
        assert_eq!([timers.send(rate).await.unwrap().unwrap(), timers.send(delay).await.unwrap().unwrap()], ids);
        world.run_to(30).await;
        assert_eq!(log.len(), 6);
        assert!(ids.into_iter().all(|id| world.timers.cancel(id).is_cancelled()));
    });
}

/// A closure that was scheduled before the last delivery of a repetition precedes the next one, due with it.
#[test]
fn a_repetition_takes_its_place_at_each_delivery() {
    with_probe::<u64>(async |world, addr, log| {
        run(&addr, |_, ctx| {
            ctx.run_every(ms(5), |probe, _| probe.log.push(1, 0));
            ctx.run_after(ms(10), |probe, _| probe.log.push(2, 0));
        })
        .await;
        world.run_to(10).await;
        assert_eq!(log.names(), [1, 2, 1]);
    });
}
