//! The conformance scenarios of durable timers, on each store.

use actix_timers::CancelOutcome;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DueTime, DurableFilter, DurableId, DurableOptions, Schedule, Scheduled};

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, one_by_one, run_to,
};

on_every_store! {
    timers_live_through_a_clean_restart
    overdue_timers_are_delivered_at_the_start_in_order
    unacknowledged_deliveries_come_again_as_the_next_attempt
    a_cancel_survives_a_crash_and_hits_only_its_own
    a_key_makes_scheduling_idempotent
    a_wall_clock_set_back_repeats_nothing_and_holds_up_nothing
}

/// Scenario O-58.
fn timers_live_through_a_clean_restart(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        for note in 0..125 {
            timers.schedule_after(ROUTE, ms(5000), Note(note)).await.unwrap();
        }
        notes(&timers, ROUTE, (125..250).map(|note| (note, 5000))).await;
        run_to(&clock, 2000).await;
        timers.stop().await.unwrap();
    });
    life(3000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        assert_eq!(timers.counts().await.unwrap().pending, 250);
        run_to(&clock, 4999).await;
        assert_eq!(diary.len(), 0);
        run_to(&clock, 5000).await;
        let expected: Vec<_> = (0..250).map(|note| (5000, note, 1)).collect();
        assert_eq!(diary.attempts(), expected, "each once, in the order of the requests");
        run_to(&clock, 20_000).await;
        assert_eq!(diary.len(), 250);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

/// Scenario O-59.
fn overdue_timers_are_delivered_at_the_start_in_order(medium: impl Medium) {
    let diary = Diary::default();
    const TICK: u32 = 1000;
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        notes(&timers, ROUTE, [9000, 3000, 6000, 120_000].map(|due| (due as u32, due))).await;
        let _ = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(TICK)).await.unwrap();
        run_to(&clock, 2500).await;
        assert_eq!(diary.deliveries(), [(1000, TICK), (2000, TICK)]);
        timers.stop().await.unwrap();
    });
    life(60_000, async |clock| {
        let _timers = diary.timers(&medium, &clock);
        clock.settle().await;
        let at_once = diary.deliveries().split_off(2);
        // The tick was due at 3000, too, and for the first time before the message of that time.
        assert_eq!(at_once, [(60_000, TICK), (60_000, 3000), (60_000, 6000), (60_000, 9000)]);
        run_to(&clock, 61_000).await;
        assert_eq!(diary.deliveries().split_off(6), [(61_000, TICK)]);
        run_to(&clock, 120_000).await;
        let deliveries = diary.deliveries();
        assert_eq!(deliveries.len(), 7 + 59 + 1);
        assert!(deliveries.contains(&(120_000, 120_000)) && deliveries.contains(&(120_000, TICK)));
    });
}

/// Scenario O-60.
fn unacknowledged_deliveries_come_again_as_the_next_attempt(mut medium: impl Medium) {
    let (a, b, c) = (1, 2, 3);
    let diary = Diary::default();
    diary.script(b, [Act::Hang]);
    let ids = life(0, async |clock| {
        // One at a time, so that C is not sent before B is acknowledged.
        let timers = diary.timers_with(&medium, &clock, one_by_one());
        let ids = notes(&timers, ROUTE, [(a, 100), (b, 100), (c, 100)]).await;
        run_to(&clock, 100).await;
        assert_eq!(diary.attempts(), [(100, a, 1), (100, b, 1)]);
        medium.crash();
        ids
    });
    let restart = |start: u64| {
        life(start, async |clock| {
            let timers = diary.timers_with(&medium, &clock, one_by_one());
            clock.settle().await;
            assert_eq!(timers.counts().await.unwrap().pending, 0);
            timers.stop().await.unwrap();
        });
    };
    restart(200);
    let entries = diary.entries();
    assert_eq!(diary.attempts().split_off(2), [(200, b, 2), (200, c, 1)]);
    assert_eq!([entries[0].id, entries[1].id, entries[2].id, entries[3].id], [ids[0], ids[1], ids[1], ids[2]]);
    restart(300);
    assert_eq!(diary.len(), 4);
}

/// Scenario O-61.
fn a_cancel_survives_a_crash_and_hits_only_its_own(mut medium: impl Medium) {
    let diary = Diary::default();
    let ids = life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let ids = notes(&timers, ROUTE, (0..5).map(|note| (note, 1000))).await;
        assert_eq!(timers.cancel(ids[0]).await.unwrap(), CancelOutcome::Cancelled);
        let unknown = DurableId::new(DueTime::at_or_after(at(1000)).unwrap());
        assert_eq!(timers.cancel(unknown).await.unwrap(), CancelOutcome::NotFound);
        // An id identifies its timer alone; a key needs a target, too.
        let _ = timers
            .schedule(Schedule::at(ROUTE, at(1000), Note(5)).options(DurableOptions::new().if_absent("second")))
            .await
            .unwrap();
        assert_eq!(timers.cancel_key("another", "second").await.unwrap(), CancelOutcome::NotFound);
        medium.crash();
        ids
    });
    life(500, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 2000).await;
        let expected: Vec<_> = (1..6).map(|note| (1000, note)).collect();
        assert_eq!(diary.deliveries(), expected);
        assert_eq!(timers.cancel(ids[2]).await.unwrap(), CancelOutcome::NotFound);
    });
}

/// Scenario O-62.
fn a_key_makes_scheduling_idempotent(medium: impl Medium) {
    let diary = Diary::default();
    let if_absent =
        |due, note| Schedule::at(ROUTE, at(due), Note(note)).options(DurableOptions::new().if_absent("order-7"));
    let first = life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let request = timers.schedule(if_absent(1000, 1));
        let id = request.id();
        assert_eq!(request.await.unwrap(), Scheduled::Created(id));
        assert_eq!(timers.schedule(if_absent(500, 2)).await.unwrap(), Scheduled::Exists(id));
        timers.stop().await.unwrap();
        id
    });
    life(100, async |clock| {
        let timers = diary.timers(&medium, &clock);
        assert_eq!(timers.schedule(if_absent(700, 3)).await.unwrap(), Scheduled::Exists(first));
        let replace =
            timers.schedule(Schedule::at(ROUTE, at(800), Note(4)).options(DurableOptions::new().replace("order-7")));
        let id = replace.id();
        assert_eq!(replace.await.unwrap(), Scheduled::Replaced { id, old: first, in_progress: false });
        run_to(&clock, 2000).await;
        assert_eq!(diary.deliveries(), [(800, 4)]);
        assert!(matches!(timers.schedule(if_absent(3000, 5)).await.unwrap(), Scheduled::Created(_)));
        run_to(&clock, 3000).await;
        assert_eq!(diary.deliveries(), [(800, 4), (3000, 5)]);
    });
}

/// Scenario O-65.
fn a_wall_clock_set_back_repeats_nothing_and_holds_up_nothing(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        notes(&timers, ROUTE, [9000, 11_000, 20_000].map(|due| (due as u32, due))).await;
        run_to(&clock, 10_000).await;
        assert_eq!(diary.deliveries(), [(9000, 9000)]);
        timers.stop().await.unwrap();
    });
    life(4000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        // A timer earlier than the time that the store has seen.
        notes(&timers, ROUTE, [(5000, 5000)]).await;
        run_to(&clock, 30_000).await;
        assert_eq!(clock.wall(), at(30_000));
        let expected = [(9000, 9000), (5000, 5000), (11_000, 11_000), (20_000, 20_000)];
        assert_eq!(diary.deliveries(), expected);
        assert!(timers.list(DurableFilter::new()).await.unwrap().timers.is_empty());
    });
}
