//! Memory: a cancelled timer is freed at the cancel, every payload is dropped once, ended queues and actors leave nothing
//! behind, and the cost of an actor's ordinary messages and its timers does not depend on the number of pending timers.
//! The allocator counts per thread: each test runs its whole system on its own thread.

use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use std::future::Future;

use actix::prelude::*;
use actix_timers::{CancelOutcome, Target, TimerActor, TimerContext, TimerOptions};
use support::{Census, Counted, Note, Probe, Run, Way, World, in_virtual_time, ms, paused, run};

thread_local! {
    /// Bytes this thread has allocated and not freed.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Allocations this thread has made.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: forwards every call to the system's allocator; the counters neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's guarantees are the same.
        unsafe { Heap.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size().cast_signed()));
        // SAFETY: the caller's guarantees are the same.
        unsafe { Heap.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's guarantees are the same.
        unsafe { Heap.realloc(place, layout, size) }
    }
}

fn count(bytes: isize) {
    let _ = BYTES.try_with(|total| total.set(total.get() + bytes));
    let _ = ALLOCATIONS.try_with(|total| total.set(total.get() + 1));
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bytes() -> isize {
    BYTES.get()
}

/// Returns the number of allocations during `work`.
async fn allocations(work: impl Future<Output = ()>) -> usize {
    let before = ALLOCATIONS.get();
    work.await;
    ALLOCATIONS.get() - before
}

const KIB: isize = 1 << 10;
const MIB: isize = 1 << 20;
const HOUR: u64 = 3_600_000;

/// Schedule and cancel, again and again without the clock moving: all memory is freed. A twentieth of scenario O-49.
#[test]
fn schedule_and_cancel_without_a_tick_free_their_memory() {
    schedule_and_cancel(50_000);
}

/// Scenario O-49.
#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn schedule_and_cancel_without_a_tick_in_full_size() {
    schedule_and_cancel(1_000_000);
}

fn schedule_and_cancel(rounds: usize) {
    for kept in [0, 1000] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let census = Census::default();
            let (addr, _log) = world.probe::<u8>();
            world.settle().await;
            let target = Target::from(&addr);
            let start = bytes();
            for _ in 0..kept {
                world.timers.schedule_after(&target, ms(HOUR), census.payload());
            }
            for _ in 0..rounds {
                let id = world.timers.schedule_after(&target, ms(HOUR), census.payload());
                assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            }
            for _ in 0..2 {
                assert_eq!((census.live(), world.pending()), (kept, kept as u64));
                let retained = bytes() - start;
                assert!(retained <= MIB, "{retained} bytes");
                // Again after the driver has had its turn.
                world.settle().await;
            }
            assert_eq!(world.now(), 0);
        });
    }
}

/// Ten seconds after a burst all its memory has gone back, be it cancelled or delivered, although a timer goes on.
#[test]
fn the_memory_of_a_burst_goes_back() {
    for is_cancelled in [true, false] {
        in_virtual_time(TimerActor::builder, move |world| async move {
            let (addr, log) = world.probe::<u32>();
            world.settle().await;
            let target = Target::from(&addr);
            world.timers.schedule_after(&target, ms(HOUR), Note(0));
            world.settle().await;
            let start = bytes();
            for burst in [20_000_u32, 40_000] {
                let delay = |number| ms(1 + 10 * u64::from(number % 64));
                let schedule = |number| world.timers.schedule_after(&target, delay(number), Note(number));
                let ids: Vec<_> = (0..burst).map(schedule).collect();
                let pending = bytes() - start;
                assert!(pending > isize::try_from(burst).unwrap() * 64, "{pending} bytes");
                if is_cancelled {
                    ids.iter().for_each(|id| assert_eq!(world.timers.cancel(*id), CancelOutcome::Cancelled));
                }
                drop(ids);
                world.run_to(world.now() + 1000).await;
                drop(log.take());
                assert!(bytes() - start > pending / 3, "the next burst may be near");
                world.run_to(world.now() + 11_000).await;
                let retained = bytes() - start;
                assert!(retained < 200 * KIB, "{retained} of {pending} bytes");
            }
            assert_eq!(world.pending(), 1);
        });
    }
}

/// A hundred payloads meet every possible fate, and each is dropped exactly once: by the service, except the returned
/// ones. (Dropping one twice panics in [`Counted`].)
/// Scenario O-50.
#[test]
fn every_payload_is_dropped_exactly_once() {
    let builder = || TimerActor::builder().wheel_size(4).capacity(90);
    in_virtual_time(builder, |world| async move {
        let census = Census::default();
        let (addr, _log) = world.probe::<u8>();
        let (dead, _log) = world.probe::<u8>();
        let after = |delay| world.timers.schedule_after(&addr, ms(delay), census.payload());
        (1..=20).for_each(|delay| _ = after(delay));
        let cancelled: Vec<_> = (1..=20).map(after).collect();
        let reset: Vec<_> = (1..=20).map(after).collect();
        let replaced: Vec<_> = (1..=10).map(after).collect();
        (0..10).for_each(|_| _ = after(HOUR));
        for _ in 0..10 {
            world.timers.schedule_after(&dead, ms(15), census.payload());
        }
        drop(dead);

        let reject = || world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), census.payload());
        let rejected: Vec<Counted> = (0..10).map(|_| reject().unwrap_err().into_message()).collect();
        assert_eq!((census.live(), world.pending()), (100, 90));

        for id in cancelled {
            assert!(world.timers.cancel(id).is_cancelled());
        }
        assert_eq!(census.live(), 80, "freed at the cancel, not at the deadline");
        for id in reset {
            assert!(world.timers.reschedule_after(id, ms(300)).is_rescheduled());
        }
        for id in replaced {
            assert!(world.timers.cancel(id).is_cancelled());
            after(50);
        }
        assert_eq!((census.made(), census.live()), (110, 80));
        world.run_to(1000).await;
        assert_eq!(census.live(), 20);
        let returned = world.timers.drain();
        assert_eq!((returned.len(), rejected.len(), census.live()), (10, 10, 20));
        drop(returned);
        assert_eq!(census.live(), 10);
        drop(rejected);
        assert_eq!((census.live(), census.dropped()), (0, 110));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.recipient_stopped), (50, 30, 10));
        assert_eq!((counters.returned, counters.rejected_capacity, counters.pending), (10, 10, 0));
    });
}

#[test]
fn payloads_pending_at_the_end_of_the_system_are_dropped() {
    let census = Census::default();
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u8>();
        for _ in 0..10 {
            world.timers.schedule_after(&addr, ms(HOUR), census.payload());
        }
        let counted = census.clone();
        run(&addr, move |_, ctx| {
            (0..10).for_each(|_| _ = ctx.schedule_after(ms(HOUR), counted.payload()));
        })
        .await;
        assert_eq!(census.live(), 20);
    });
    assert_eq!(census.live(), 0);
}

/// Gives the service time for its housekeeping.
async fn calm(world: &World) {
    for _ in 0..5 {
        world.run_to(world.now() + 400).await;
    }
}

async fn pend(addr: &Addr<Probe<u32>>, timers: u32) {
    run(addr, move |_, ctx| (0..timers).for_each(|name| _ = ctx.schedule_after(ms(HOUR), Note(name)))).await;
}

/// An actor's ordinary messages cost no allocation, no reading of the clock and no turn of the driver, however many
/// timers it has.
#[test]
fn an_ordinary_message_costs_the_same_with_any_number_of_timers() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe::<u32>();
        let mut costs = Vec::new();
        for pending in [0, 1, 1000, 50_000] {
            pend(&addr, pending).await;
            calm(&world).await;
            log.take();
            let (reads, alarms) = (world.clock().reads(), world.clock().alarms());
            let allocated = allocations(async {
                for _ in 0..1000 {
                    addr.send(Run(Box::new(|_, _| ()))).await.unwrap();
                }
            })
            .await;
            costs.push((allocated, world.clock().reads() - reads, world.clock().alarms() - alarms));
        }
        assert_eq!(costs, [(costs[0].0, 0, 0); 4]);
    });
}

/// Returns the bytes that stay after 400 times `work`, once there is room for it.
async fn retained(mut work: impl AsyncFnMut()) -> isize {
    for _ in 0..100 {
        work().await;
    }
    let before = bytes();
    for _ in 0..400 {
        work().await;
    }
    bytes() - before
}

/// A message begins a queue of its recipient and ends it, and so does an actor; one that is stuck does not matter.
#[test]
fn ended_queues_and_actors_leave_nothing_behind() {
    for (kind, is_new) in
        ["own", "plain", "window", "tracked"].into_iter().flat_map(|kind| [(kind, false), (kind, true)])
    {
        paused(async {
            let world = World::paused(TimerActor::builder());
            let (stuck, _log) = world.probe::<u32>();
            run(&stuck, |_, ctx| {
                ctx.schedule_after(ms(1), Note(0));
                ctx.wait(actix::fut::wrap_future(std::future::pending::<()>()));
            })
            .await;
            let known = world.probe::<u32>();
            let retained = retained(async || {
                let (addr, log) = if is_new { world.probe() } else { known.clone() };
                match kind {
                    "own" => run(&addr, |_, ctx| _ = ctx.schedule_after(ms(1), Note(0))).await,
                    "plain" => _ = world.after(&addr, 1, 0),
                    "window" => _ = world.after(Target::from(&addr).window(1), 1, 0),
                    _ => _ = world.after(Target::tracked(&addr), 1, 0),
                }
                world.run_to(world.now() + 2).await;
                assert_eq!(log.take().len(), 1);
            })
            .await;
            assert!(retained < KIB, "{kind}, a new actor each time: {is_new}: {retained} bytes");
        });
    }
}

/// Once there is room, scheduling and cancelling allocate nothing, however many timers are pending.
#[test]
fn schedule_and_cancel_allocate_nothing_at_any_number_pending() {
    for way in [Way::Direct, Way::Context] {
        paused(async {
            let world = World::manual(TimerActor::builder());
            let (addr, _log) = world.probe::<u32>();
            let mut costs = Vec::new();
            for pending in [0, 1000, 50_000] {
                pend(&addr, pending).await;
                calm(&world).await;
                let timers = world.timers.clone();
                let pairs = move |ctx: &mut Context<Probe<u32>>| {
                    let target = Target::from(ctx.address());
                    let before = ALLOCATIONS.get();
                    for name in 0..1000 {
                        let id = match way {
                            Way::Context => ctx.schedule_after(ms(HOUR), Note(name)),
                            _ => timers.schedule_after(&target, ms(HOUR), Note(name)),
                        };
                        assert!(ctx.cancel_timer(id).is_cancelled());
                    }
                    ALLOCATIONS.get() - before
                };
                let warm = pairs.clone();
                run(&addr, move |_, ctx| _ = warm(ctx)).await;
                costs.push(run(&addr, move |_, ctx| pairs(ctx)).await);
            }
            assert_eq!(costs, [0; 3], "{way:?}");
        });
    }
}
