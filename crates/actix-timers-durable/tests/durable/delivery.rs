//! Delivery of durable messages to their handlers: attempts, windows, order, missing recipients, clocks that are set.

use std::cell::RefCell;
use std::rc::Rc;

use actix::prelude::*;
use actix_timers::testing;
use actix_timers_durable::store::{Hint, MemoryDisk, Next, Op};
use actix_timers_durable::{
    DecodeError, DurableError, DurableFilter, DurableMessage, DurableOptions, DurableState, DurableTimers, RetryPolicy,
    RouteOptions, Schedule,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use support::durable::{
    Act, Diary, End, Files, Medium, Note, ROUTE, Watch, Watched, Writer, at, behind, handled_by, life, ms, notes,
    on_every_store, one_by_one, one_life, quick, run_to,
};
use support::{Gate, Shut};

on_every_store! {
    a_snoozed_message_comes_again_and_keeps_its_attempts
    the_policy_of_a_timer_comes_before_that_of_its_route
    a_timed_out_message_is_withdrawn_though_its_recipient_wakes
    a_panic_uses_an_attempt_and_the_next_recipient_gets_the_next
    a_timer_cancelled_or_moved_gives_its_place_to_the_next
    a_timer_moved_in_the_queue_is_delivered_once_and_takes_one_place
    the_window_bounds_deliveries_and_the_rest_keeps_its_order
    a_step_of_the_clock_delivers_nothing_early_or_twice
    a_clock_set_back_before_the_delivery_delivers_nothing_early
    an_old_version_is_decoded_and_a_newer_one_is_kept
}

fn a_snoozed_message_comes_again_and_keeps_its_attempts(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let snooze = || Act::Snooze(ms(700));
        diary.script(1, [snooze(), Act::Fail, snooze(), snooze(), Act::Fail, Act::Fail]);
        let id = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 10_000).await;
        // Three attempts, the delays of which grow by failures alone.
        let expected = [(1000, 1, 1), (1700, 1, 2), (1800, 1, 3), (2500, 1, 4), (3200, 1, 5), (3400, 1, 6)];
        assert_eq!(diary.attempts(), expected);
        assert!(diary.entries().iter().all(|entry| entry.due == 1000), "the time of the message stays");
        assert!(matches!(timers.get(id).await.unwrap().unwrap().state, DurableState::Dead { .. }));
    });
}

fn the_policy_of_a_timer_comes_before_that_of_its_route(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Fail]);
        diary.script(2, [Act::Fail]);
        let never = DurableOptions::new().retry(RetryPolicy::never());
        let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(1)).options(never)).await.unwrap();
        let slow = DurableOptions::new().retry(quick().initial_delay(ms(5000)));
        let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(2)).options(slow)).await.unwrap();
        run_to(&clock, 20_000).await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (10, 2, 1), (5010, 2, 2)]);
        assert_eq!(timers.counts().await.unwrap().dead, 1);
    });
}

/// Makes a writer accept no message before a signal.
#[derive(Message)]
#[rtype(result = "()")]
struct Sleep(oneshot::Receiver<()>);

impl Handler<Sleep> for Writer {
    type Result = ();

    fn handle(&mut self, Sleep(signal): Sleep, ctx: &mut Context<Self>) {
        ctx.wait(signal.into_actor(self).map(|_, _, _| ()));
    }
}

fn a_timed_out_message_is_withdrawn_though_its_recipient_wakes(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let (wake, signal) = oneshot::channel();
        let writer = diary.writer(&clock);
        writer.send(Sleep(signal)).await.unwrap();
        let mut wake = Some(wake);
        let wake_at_the_next_attempt = move |ops: &[Op]| {
            if ops.iter().any(|op| matches!(op, Op::End(_, Next::Again(_)))) {
                wake.take().into_iter().for_each(|wake| _ = wake.send(()));
            }
        };
        let timers = DurableTimers::builder(Watched(medium.open(), wake_at_the_next_attempt))
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, writer, RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        notes(&timers, ROUTE, (2..=9).map(|note| (note, 0))).await;
        run_to(&clock, 1099).await;
        assert_eq!(diary.len(), 0);
        run_to(&clock, 1100).await;
        assert_eq!(diary.attempts(), [2, 3, 4, 5, 6, 7, 8, 9].map(|note| (1100, note, 2)));
    });
}

fn a_panic_uses_an_attempt_and_the_next_recipient_gets_the_next(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Panic]);
        let id = notes(&timers, ROUTE, [(1, 10), (2, 20)]).await[0];
        run_to(&clock, 60_000).await;
        // The actor has ended with its panic. The due timer waits, and no attempt is used up.
        assert_eq!(diary.attempts(), [(10, 1, 1)]);
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((info.state, info.progress.attempt), (DurableState::Pending, 2));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (60_000, 1, 2), (60_000, 2, 1)]);
    });
}

fn a_timer_cancelled_or_moved_gives_its_place_to_the_next(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers_with(&medium, &clock, one_by_one());
        let tell = diary.hold(0);
        let ids = notes(&timers, ROUTE, (0..5).map(|note| (note, 10))).await;
        run_to(&clock, 100).await;
        assert!(timers.cancel(ids[1]).await.unwrap().is_cancelled());
        assert!(timers.reschedule_at(ids[2], at(5000)).await.unwrap().is_rescheduled());
        // It is due all the same.
        assert!(timers.reschedule_at(ids[3], at(100)).await.unwrap().is_rescheduled());
        tell.send(()).unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 0, 1), (100, 4, 1), (100, 3, 1)]);
        assert_eq!(diary.entries()[2].due, 100, "it knows that it was moved");
        run_to(&clock, 10_000).await;
        assert_eq!(diary.attempts().split_off(3), [(5000, 2, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

/// It is in the queue twice then.
fn a_timer_moved_in_the_queue_is_delivered_once_and_takes_one_place(medium: impl Medium) {
    for (start, due, moved) in [(0, 10, 20), (10_000, 10_020, 10_010)] {
        let diary = Diary::default();
        life(start, async |clock| {
            let timers = diary.timers_with(&medium, &clock, RouteOptions::new().window(2).retry(quick()));
            let ends = [1, 2, 3].map(|note| diary.hold(note));
            let id = notes(&timers, ROUTE, [(1, start + 1), (2, start + 1), (3, due)]).await[2];
            run_to(&clock, start + 1000).await;
            assert!(timers.reschedule_at(id, at(moved)).await.unwrap().is_rescheduled());
            clock.settle().await;
            for end in ends {
                end.send(()).unwrap();
                clock.settle().await;
            }
            assert_eq!(diary.attempts()[2..], [(start + 1000, 3, 1)]);
            assert_eq!(diary.entries()[2].due, moved, "as it is now");
            // Two handlers can still run at once.
            (4..7).for_each(|note| diary.script(note, [Act::Hang]));
            let ids = notes(&timers, ROUTE, [(4, 0), (5, 0), (6, 0)]).await;
            clock.settle().await;
            assert_eq!(diary.len(), 5);
            for id in ids {
                timers.cancel(id).await.unwrap();
            }
            timers.stop_within(ms(0)).await.unwrap();
        });
    }
}

fn the_window_bounds_deliveries_and_the_rest_keeps_its_order(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers_with(&medium, &clock, RouteOptions::new().window(2).retry(quick()));
        let mut tell: Vec<_> = (0..6).map(|note| Some(diary.hold(note))).collect();
        // Scheduled in the opposite order.
        notes(&timers, ROUTE, (0..6).map(|note| (note, 60 - 10 * u64::from(note)))).await;
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(10, 5), (20, 4)]);
        for (note, begun) in [4, 5, 3, 2, 1, 0].into_iter().zip([3, 4, 5, 6, 6, 6]) {
            tell[note].take().unwrap().send(()).unwrap();
            clock.settle().await;
            assert_eq!(diary.len(), begun, "after {note}");
        }
        assert_eq!(diary.deliveries()[2..], [(100, 3), (100, 2), (100, 1), (100, 0)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

/// In a store that nodes share a look may have seen the row before the claim, and return after it.
#[test]
fn a_hint_from_before_its_claim_takes_no_place() {
    /// Returns the result of the look before, too.
    struct Late(Vec<Hint>);
    impl Watch for Late {
        fn before(&mut self, _: &[Op]) {}

        fn found(&mut self, hints: &mut Vec<Hint>) {
            let before = std::mem::replace(&mut self.0, hints.clone());
            hints.splice(0..0, before);
        }
    }
    let diary = Diary::default();
    life(0, async |clock| {
        let hour = RetryPolicy::default().timeout(ms(3_600_000));
        let options = RouteOptions::new().window(2).retry(hour);
        let builder = DurableTimers::builder(Watched(MemoryDisk::new().open(), Late(Vec::new()))).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), options).start().unwrap();
        let end = diary.hold(1);
        notes(&timers, ROUTE, [(1, 20_000)]).await;
        // Looks come every half minute.
        run_to(&clock, 100_000).await;
        assert_eq!(diary.attempts(), [(20_000, 1, 1)]);
        end.send(()).unwrap();
        (2..5).for_each(|note| diary.script(note, [Act::Hang]));
        notes(&timers, ROUTE, [(2, 0), (3, 0), (4, 0)]).await;
        clock.settle().await;
        assert_eq!(diary.len(), 3, "two handlers at once");
    });
}

#[test]
fn a_route_that_does_not_get_on_holds_up_no_other() {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = diary.builder(&MemoryDisk::new(), &clock);
        let timers = builder.route_with::<Note>("slow", diary.writer(&clock), one_by_one()).start().unwrap();
        diary.script(0, [Act::Hang]);
        notes(&timers, "slow", (0..1000).map(|note| (note, 10))).await;
        notes(&timers, ROUTE, (0..100).map(|note| (note, 11))).await;
        run_to(&clock, 11).await;
        let expected: Vec<_> = (0..100).map(|note| (11, note)).collect();
        assert_eq!((diary.deliveries()[0], &diary.deliveries()[1..]), ((10, 0), &expected[..]));
    });
}

fn a_step_of_the_clock_delivers_nothing_early_or_twice(medium: impl Medium) {
    const HOUR: u64 = 3_600_000;
    let diary = Diary::default();
    life(10 * HOUR, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let dues = [10 * HOUR + 1000, 10 * HOUR + 60_000, 11 * HOUR + 30_000, 12 * HOUR];
        notes(&timers, ROUTE, (1..).zip(dues)).await;
        run_to(&clock, 10 * HOUR + 1000).await;
        // An hour forward: timers due by then come at once, once.
        clock.set_wall(at(11 * HOUR + 1000));
        clock.settle().await;
        assert_eq!(diary.deliveries(), [(10 * HOUR + 1000, 1), (11 * HOUR + 1000, 2)]);
        // And back: no timer comes again, and none before its time.
        clock.set_wall(at(10 * HOUR + 2000));
        run_to(&clock, 11 * HOUR + 30_000 - 1).await;
        assert_eq!(diary.len(), 2);
        run_to(&clock, 13 * HOUR).await;
        assert_eq!(diary.deliveries().split_off(2), [(11 * HOUR + 30_000, 3), (12 * HOUR, 4)]);
    });
}

fn a_clock_set_back_before_the_delivery_delivers_nothing_early(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers =
            DurableTimers::builder(medium.open()).clock(clock.clone()).open_route::<Note>(ROUTE).start().unwrap();
        let _ = timers.schedule_at(ROUTE, at(10_000), Note(1)).await.unwrap();
        run_to(&clock, 20_000).await;
        clock.set_wall(at(5000));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        run_to(&clock, 9999).await;
        assert_eq!(diary.len(), 0);
        run_to(&clock, 30_000).await;
        assert_eq!(diary.deliveries(), [(10_000, 1)]);
    });
}

/// The next version of [`Note`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct BetterNote {
    number: u32,
    text: String,
}

impl DurableMessage for BetterNote {
    const NAME: &'static str = Note::NAME;
    const VERSION: u32 = 2;

    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if version == 1 {
            let Note(number) = Note::decode(1, payload)?;
            return Ok(Self { number, text: "of version 1".to_owned() });
        }
        Self::decode_json(version, payload)
    }
}

fn an_old_version_is_decoded_and_a_newer_one_is_kept(medium: impl Medium) {
    let diary = Diary::default();
    let read = Rc::<RefCell<Vec<BetterNote>>>::default();
    let newer_build = |clock: &actix_timers::ManualClock| {
        let reads = Rc::clone(&read);
        let reader = handled_by(async move |note| {
            reads.borrow_mut().push(note.message);
            Ok(())
        });
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        builder.route::<BetterNote>(ROUTE, reader).start().unwrap()
    };
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        notes(&timers, ROUTE, [(1, 10)]).await;
        timers.stop().await.unwrap();
    });
    let new = || BetterNote { number: 2, text: "new".to_owned() };
    life(100, async |clock| {
        let timers = newer_build(&clock);
        clock.settle().await;
        assert_eq!(read.take(), [BetterNote { number: 1, text: "of version 1".to_owned() }]);
        let _ = timers.schedule_at(ROUTE, at(200), new()).await.unwrap();
        timers.stop().await.unwrap();
    });
    // The old build again: it cannot decode the newer message, and loses nothing.
    life(300, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 10_000).await;
        assert_eq!(diary.len(), 0);
        let waiting = timers.list(DurableFilter::new()).await.unwrap().timers;
        let error = waiting[0].message::<Note>().unwrap_err();
        assert_eq!(error, DecodeError::NewerVersion { message_type: "note", found: 2, known: 1 });
        timers.stop().await.unwrap();
    });
    life(20_000, async |clock| {
        let timers = newer_build(&clock);
        clock.settle().await;
        assert_eq!(read.take(), [new()]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn on_the_paused_clock_of_tokio_all_is_the_same() {
    System::with_tokio_rt(support::paused_runtime).block_on(async {
        let diary = Diary::default();
        // Only for the times in the diary.
        let stopped = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .route_with::<Note>(ROUTE, diary.writer(&stopped), RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        diary.script(1, [Act::Fail, Act::Hang]);
        // The delay counts from here.
        let request = Schedule::after(ROUTE, ms(3_600_000), Note(1));
        testing::advance(ms(1_000_000)).await;
        let _ = timers.schedule(request).await.unwrap();
        testing::advance(ms(2_600_000 - 1)).await;
        assert_eq!(diary.len(), 0);
        testing::advance(ms(2)).await;
        assert_eq!(diary.len(), 1);
        testing::advance(ms(60_000)).await;
        let attempts: Vec<_> = diary.entries().iter().map(|entry| entry.attempt).collect();
        assert_eq!(attempts, [1, 2, 3]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        timers.stop().await.unwrap();
    });
}

#[test]
fn on_the_real_clock_a_thread_of_its_own_writes() {
    support::in_real_time(async {
        let diary = Diary::default();
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .route_with::<Note>(ROUTE, diary.writer(&clock), RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        diary.script(0, [Act::Fail]);
        let tell = diary.hold(99);
        for note in 0..100 {
            timers.schedule_after(ROUTE, ms(1), Note(note)).await.unwrap();
        }
        let elsewhere = timers.clone();
        let counted = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { elsewhere.counts().await })
        });
        while diary.len() < 101 || timers.counts().await.unwrap().pending > 1 {
            // Real time has to pass until the second attempt.
            tokio::time::sleep(ms(1)).await;
        }
        assert!(counted.join().unwrap().is_ok());
        tell.send(()).unwrap();
        timers.stop().await.unwrap();
        assert!(matches!(timers.counts().await, Err(DurableError::Closed)));
        assert_eq!(diary.len(), 101);
    });
}

/// Starts durable timers on the real clock, with a claim that is being written: the message of a due timer is about to
/// be delivered, and cannot be before `Shut` is dropped.
async fn with_a_claim_that_is_written(disk: &MemoryDisk, diary: &Diary) -> (DurableTimers, Addr<Writer>, Shut) {
    let gate = Gate::default();
    let clock = actix_timers::ManualClock::starting_at(at(0));
    let writer = diary.writer(&clock);
    let timers = DurableTimers::builder(behind(&gate, disk))
        .open_route_with::<Note>(ROUTE, RouteOptions::new().retry(quick()))
        .start()
        .unwrap();
    timers.schedule_after(ROUTE, ms(0), Note(1)).await.unwrap();
    let held = gate.shut();
    timers.connect::<Note>(ROUTE, writer.clone()).unwrap();
    while gate.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    (timers, writer, held)
}

#[test]
fn a_recipient_that_stops_during_the_claim_costs_no_attempt() {
    support::in_real_time(async {
        let (disk, diary) = (MemoryDisk::new(), Diary::default());
        let (timers, writer, held) = with_a_claim_that_is_written(&disk, &diary).await;
        writer.send(End).await.unwrap();
        drop(held);
        while writer.connected()
            || timers.list(DurableFilter::new()).await.unwrap().timers[0].state != DurableState::Pending
        {
            tokio::task::yield_now().await;
        }
        let clock = actix_timers::ManualClock::starting_at(at(0));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        while timers.counts().await.unwrap().pending > 0 {
            // Real time has to pass until it is due again.
            tokio::time::sleep(ms(1)).await;
        }
        assert_eq!(diary.attempts(), [(0, 1, 2)]);
    });
}

#[test]
fn timers_claimed_at_a_stop_are_left_to_the_next_start() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    support::in_real_time(async {
        let (timers, _writer, held) = with_a_claim_that_is_written(&disk, &diary).await;
        let stopping = actix::spawn(async move { timers.stop().await });
        // The request to stop comes before the answer that the claim is written: its mailbox is in order.
        tokio::task::yield_now().await;
        drop(held);
        stopping.await.unwrap().unwrap();
        assert_eq!(diary.len(), 0);
    });
    // The real clock is ahead of the tests' clock.
    support::in_real_time(async {
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(disk.open()).route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        while timers.counts().await.unwrap().pending > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(diary.attempts(), [(0, 1, 2)]);
    });
}
