//! Messages in a queue, or in the middle of a claim, while they or their recipients change.

use actix::prelude::*;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{Durable, DurableTimers, DurableTimersBuilder, HandlerError, RouteOptions};
use tokio::sync::oneshot;

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_by_one, quick, run_to,
};

on_every_store! {
    a_timer_cancelled_or_moved_gives_its_place_to_the_next
    a_timer_that_is_due_twice_takes_one_place_in_the_queue
    an_open_route_has_its_whole_window_when_it_is_connected
}

fn a_timer_cancelled_or_moved_gives_its_place_to_the_next(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), one_by_one()).start().unwrap();
        let (tell, told) = oneshot::channel();
        diary.script(0, [Act::Wait(told)]);
        let mut ids = Vec::new();
        for note in 0..5 {
            ids.push(timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap().id());
        }
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

/// Asserts that two handlers can still run at once: no place in the window was lost.
async fn assert_two_at_a_time(diary: &Diary, timers: &DurableTimers, clock: &actix_timers::ManualClock) {
    let before = diary.len();
    for note in 100..103 {
        diary.script(note, [Act::Hang]);
        let _ = timers.schedule_at(ROUTE, at(20_000), Note(note)).await.unwrap();
    }
    run_to(clock, 20_000).await;
    assert_eq!(diary.deliveries().split_off(before), [(20_000, 100), (20_000, 101)]);
}

fn two_at_a_time() -> RouteOptions {
    RouteOptions::new().window(2).retry(quick())
}

fn a_timer_that_is_due_twice_takes_one_place_in_the_queue(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), two_at_a_time()).start().unwrap();
        let mut tell = Vec::new();
        for note in 0..2 {
            let (sender, told) = oneshot::channel();
            diary.script(note, [Act::Wait(told)]);
            tell.push(sender);
            let _ = timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        }
        let id = timers.schedule_at(ROUTE, at(10), Note(2)).await.unwrap().id();
        run_to(&clock, 100).await;
        assert!(timers.reschedule_at(id, at(100)).await.unwrap().is_rescheduled());
        clock.settle().await;
        // Both places are free at once, and it is in the queue for each.
        tell.into_iter().for_each(|tell| tell.send(()).unwrap());
        clock.settle().await;
        assert_eq!(diary.deliveries().split_off(2), [(100, 2)]);
        assert_two_at_a_time(&diary, &timers, &clock).await;
    });
}

fn an_open_route_has_its_whole_window_when_it_is_connected(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let timers = builder.open_route_with::<Note>(ROUTE, two_at_a_time()).start().unwrap();
        for note in 0..10 {
            let _ = timers.schedule_at(ROUTE, at(10 + u64::from(note)), Note(note)).await.unwrap();
            run_to(&clock, 10 + u64::from(note)).await;
        }
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.len(), 10);
        assert_two_at_a_time(&diary, &timers, &clock).await;
    });
}

/// Returns a disk with an overdue timer.
fn disk_with(note: u32) -> MemoryDisk {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        let _ = timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        timers.stop().await.unwrap();
    });
    disk
}

fn on_a_thread(disk: &MemoryDisk) -> DurableTimersBuilder {
    DurableTimers::builder(disk.open())
}

/// Waits until the commit of a claim is held.
async fn wait_for_claim(disk: &MemoryDisk) {
    while disk.held() == 0 {
        // The committer's thread has to get there.
        tokio::time::sleep(ms(1)).await;
    }
}

#[test]
fn a_timer_claimed_at_a_stop_keeps_its_budget() {
    let (disk, diary) = (disk_with(1), Diary::default());
    support::in_real_time(async {
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let held = disk.hold_commits();
        let timers = on_a_thread(&disk).route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        wait_for_claim(&disk).await;
        let stopping = actix::spawn(async move { timers.stop().await });
        for _ in 0..100 {
            // The stop reaches the actor before the answer to the claim does.
            tokio::task::yield_now().await;
        }
        drop(held);
        stopping.await.unwrap().unwrap();
    });
    assert_eq!(diary.len(), 0);
    // It was given back by the system's clock, and is due from then on.
    let later = at(0).elapsed().unwrap().as_millis() as u64 + 1000;
    life(later, async |clock| {
        let _timers = diary.timers(&disk, &clock);
        clock.settle().await;
        assert_eq!(diary.attempts(), [(later, 1, 2)]);
    });
}

/// Stops on demand.
struct Guest;

#[derive(Message)]
#[rtype(result = "()")]
struct Go;

impl Actor for Guest {
    type Context = Context<Self>;
}

impl Handler<Go> for Guest {
    type Result = ();

    fn handle(&mut self, _: Go, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Handler<Durable<Note>> for Guest {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, _: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        panic!("it has gone");
    }
}

#[test]
fn a_timer_claimed_as_its_recipient_stops_keeps_its_budget() {
    let (disk, diary) = (disk_with(1), Diary::default());
    support::in_real_time(async {
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let held = disk.hold_commits();
        let foreign = Guest.start();
        let timers = on_a_thread(&disk).route_with::<Note>(ROUTE, foreign.clone(), one_by_one()).start().unwrap();
        wait_for_claim(&disk).await;
        foreign.do_send(Go);
        while foreign.connected() {
            tokio::task::yield_now().await;
        }
        drop(held);
        timers.counts().await.unwrap();
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        while timers.counts().await.unwrap().pending > 0 {
            // It is tried again after a second of real time.
            tokio::time::sleep(ms(5)).await;
        }
        timers.stop().await.unwrap();
    });
    let attempts: Vec<_> = diary.entries().iter().map(|entry| (entry.note, entry.attempt)).collect();
    // The claim may be answered when its next recipient is there.
    assert!(matches!(attempts[..], [(1, 1 | 2)]), "{attempts:?}");
}
