//! Timers cancelled, and dead letters changed, by filters.

use std::collections::BTreeSet;

use actix_timers::Repeat;
use actix_timers_durable::store::{MemoryDisk, Op, Record, Store};
use actix_timers_durable::{
    CancelledAll, DueTime, DurableFilter, DurableId, DurableOptions, DurableTimers, RouteOptions, Schedule,
};
use support::Random;
use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, Watched, at, life, millis, ms, on_every_store, one_life, quick, run_to,
};
use support::store::{put, record};

on_every_store! {
    each_filter_cancels_its_matches_in_pages
    random_filters_cancel_as_a_list_says
    deliveries_in_progress_are_told_apart
    a_series_ends_with_its_timer
    a_filter_of_dead_letters_cancels_nothing
    dead_letters_are_changed_by_the_same_filters
}

/// A timer as a row of a naive list.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    route: &'static str,
    key: Option<String>,
    tenant: Option<&'static str>,
    due: u64,
}

/// Returns the numbers of a cancel that found no lock.
fn numbers(outcome: CancelledAll) -> (u64, u64) {
    assert_eq!(outcome.busy, 0);
    (outcome.cancelled, outcome.in_progress)
}

async fn schedule(timers: &DurableTimers, row: &Row) -> DurableId {
    let mut options = DurableOptions::new();
    if let Some(key) = &row.key {
        options = options.if_absent(key.clone());
    }
    if let Some(tenant) = row.tenant {
        options = options.header("tenant", tenant);
    }
    timers.schedule(Schedule::at(row.route, at(row.due), Note(0)).options(options)).await.unwrap().id()
}

/// Cancels by a filter, and checks that exactly the expected timers are counted, cancelled and gone.
async fn cancel(
    timers: &DurableTimers,
    filter: DurableFilter,
    all: &[(DurableId, Row)],
    is_match: impl Fn(&Row) -> bool,
) {
    let matches: BTreeSet<_> = all.iter().filter(|(_, row)| is_match(row)).map(|(id, _)| *id).collect();
    let expected = matches.len() as u64;
    let counted = timers.count_matching(filter.clone()).await.unwrap();
    assert_eq!((counted.pending, counted.parked, counted.dead), (expected, 0, 0), "{filter:?}");
    assert!(!counted.is_limited);
    assert_eq!(numbers(timers.cancel_all(filter.clone()).await.unwrap()), (expected, 0), "{filter:?}");
    for (id, row) in all {
        assert_eq!(timers.get(*id).await.unwrap().is_none(), matches.contains(id), "{filter:?}: {row:?}");
    }
    assert_eq!(timers.cancel_all(filter).await.unwrap(), CancelledAll::default(), "a repeated cancel finds nothing");
}

fn each_filter_cancels_its_matches_in_pages(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Note>("other").start().unwrap();
        let rows: Vec<Row> = (0..12)
            .map(|number| Row {
                route: if number % 3 == 0 { "other" } else { ROUTE },
                key: (number % 4 != 0).then(|| format!("order-{number}")),
                tenant: (number % 2 == 0).then_some("7"),
                due: 1000 + number / 2,
            })
            .collect();
        type Matches = fn(&Row) -> bool;
        let filters: [(DurableFilter, Matches); 8] = [
            (DurableFilter::new().route("other"), |row| row.route == "other"),
            (DurableFilter::new().message_type("note"), |_| true),
            (DurableFilter::new().message_type("not"), |_| false),
            (DurableFilter::new().key_prefix("order-1"), |row| {
                row.key.as_ref().is_some_and(|key| key.starts_with("order-1"))
            }),
            (DurableFilter::new().key("order-1"), |row| row.key.as_deref() == Some("order-1")),
            (DurableFilter::new().header("tenant", "7"), |row| row.tenant == Some("7")),
            (DurableFilter::new().due(at(1002)..at(1004)), |row| (1002..1004).contains(&row.due)),
            (DurableFilter::new().route(ROUTE).header("tenant", "7").key_prefix("o").due(at(1003)..), |row| {
                row.route == ROUTE && row.tenant == Some("7") && row.key.is_some() && row.due >= 1003
            }),
        ];
        for (filter, is_match) in filters {
            for limit in [1, 2, 100] {
                let mut all = Vec::new();
                for row in &rows {
                    all.push((schedule(&timers, row).await, row.clone()));
                }
                cancel(&timers, filter.clone().limit(limit), &all, is_match).await;
                timers.cancel_all(DurableFilter::new()).await.unwrap();
                assert_eq!(timers.counts().await.unwrap(), Default::default());
            }
        }
        run_to(&clock, 5000).await;
        assert_eq!(diary.len(), 0);
    });
}

fn random_filters_cancel_as_a_list_says(medium: impl Medium) {
    const PREFIXES: [&str; 8] = ["", "a", "a%", "a_", "a\\", "ä", "Ä", "a-1"];
    const TENANTS: [&str; 3] = ["7", "' OR 1 = 1 --", ""];
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Note>("other").start().unwrap();
        for seed in 0..30 {
            let random = &mut Random::new(seed);
            let mut all = Vec::new();
            for number in 0..random.below(40) {
                let prefix = random.choose(&PREFIXES);
                let row = Row {
                    route: random.choose(&[ROUTE, "other"]),
                    key: (random.below(3) > 0).then(|| format!("{prefix}-{number}")),
                    tenant: (random.below(3) > 0).then(|| random.choose(&TENANTS)),
                    due: 1000 + random.below(10),
                };
                all.push((schedule(&timers, &row).await, row));
            }
            let mut filter = DurableFilter::new().limit(1 + random.below(4) as usize);
            let mut wanted = (None, None, None, 0);
            if random.below(2) == 0 {
                wanted.0 = Some(random.choose(&[ROUTE, "other"]));
                filter = filter.route(wanted.0.unwrap());
            }
            if random.below(2) == 0 {
                wanted.1 = Some(random.choose(&PREFIXES));
                filter = filter.key_prefix(wanted.1.unwrap());
            }
            if random.below(3) == 0 {
                wanted.2 = Some(random.choose(&TENANTS));
                filter = filter.header("tenant", wanted.2.unwrap());
            }
            if random.below(2) == 0 {
                wanted.3 = 1000 + random.below(12);
                filter = filter.due(at(wanted.3)..);
            }
            let (route, prefix, tenant, from) = wanted;
            cancel(&timers, filter, &all, |row| {
                route.is_none_or(|route| row.route == route)
                    && prefix.is_none_or(|prefix| row.key.as_ref().is_some_and(|key| key.starts_with(prefix)))
                    && (tenant.is_none() || row.tenant == tenant)
                    && row.due >= from
            })
            .await;
            timers.cancel_all(DurableFilter::new()).await.unwrap();
        }
    });
}

fn deliveries_in_progress_are_told_apart(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let go_on = diary.hold(1);
        diary.script(2, [Act::Fail]);
        for note in [1, 2] {
            let _ = timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        }
        let _ = timers.schedule_at(ROUTE, at(1000), Note(3)).await.unwrap();
        run_to(&clock, 20).await;
        let filter = DurableFilter::new().limit(1);
        assert_eq!(
            numbers(timers.cancel_all(filter.clone()).await.unwrap()),
            (2, 1),
            "one fails, and would be retried"
        );
        assert_eq!(timers.cancel_all(filter).await.unwrap(), CancelledAll::default());
        go_on.send(()).unwrap();
        run_to(&clock, 5000).await;
        assert_eq!(diary.deliveries(), [(10, 1), (10, 2)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

fn a_series_ends_with_its_timer(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let _ = timers.schedule_at_fixed_rate(ROUTE, Repeat::every(ms(100)), Note(1)).await.unwrap();
        run_to(&clock, 250).await;
        assert_eq!(numbers(timers.cancel_all(DurableFilter::new().route(ROUTE)).await.unwrap()), (1, 0));
        run_to(&clock, 5000).await;
        assert_eq!(diary.deliveries(), [(100, 1), (200, 1)]);
    });
}

fn a_filter_of_dead_letters_cancels_nothing(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::FailForGood]);
        let _ = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap();
        run_to(&clock, 1500).await;
        assert_eq!(timers.count_matching(DurableFilter::dead()).await.unwrap().dead, 1);
        assert_eq!(timers.cancel_all(DurableFilter::dead()).await.unwrap(), CancelledAll::default());
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead), (1, 1), "the series of the letter goes on");
    });
}

fn dead_letters_are_changed_by_the_same_filters(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for number in 0..9 {
            diary.script(number, [Act::FailForGood]);
            let tenant = ["7", "8", "9"][number as usize % 3];
            let options = DurableOptions::new().header("tenant", tenant).if_absent(format!("k{number}"));
            timers.schedule(Schedule::at(ROUTE, at(10), Note(number)).options(options)).await.unwrap();
        }
        run_to(&clock, 100).await;
        let of_tenant = DurableFilter::dead().header("tenant", "8").limit(2);
        assert_eq!(timers.count_matching(of_tenant.clone()).await.unwrap().dead, 3);
        assert_eq!(timers.requeue_all(of_tenant).await.unwrap(), 3);
        run_to(&clock, 200).await;
        assert_eq!(diary.deliveries()[9..], [(100, 1), (100, 4), (100, 7)]);
        assert_eq!(timers.discard_all(DurableFilter::dead().key_prefix("k3")).await.unwrap(), 1);
        assert_eq!(timers.discard_all(DurableFilter::dead().message_type("bill")).await.unwrap(), 0);
        assert_eq!(timers.discard_all(DurableFilter::new().message_type("note").limit(1)).await.unwrap(), 5);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn parked_timers_are_cancelled_by_their_filter() {
    let (diary, disk) = (Diary::default(), MemoryDisk::new());
    life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        let garbled =
            Record { route: ROUTE.into(), message_type: "note".into(), payload: [b'?'].into(), ..record(1, 10) };
        disk.open().apply(&[put(&garbled)], DueTime::reached_at(at(0))).unwrap();
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(9000), Note(2)).await.unwrap();
        run_to(&clock, 2000).await;
        assert_eq!(timers.counts().await.unwrap().parked, 1);
        assert_eq!(timers.count_matching(DurableFilter::parked()).await.unwrap().parked, 1);
        assert_eq!(numbers(timers.cancel_all(DurableFilter::parked()).await.unwrap()), (1, 0));
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.parked), (1, 0));
    });
}

/// Another program schedules a timer with each page, due after the remaining ones.
#[test]
fn timers_scheduled_during_the_call_stay() {
    let (diary, disk) = (Diary::default(), MemoryDisk::new());
    life(0, async |clock| {
        let (other, wall, mut young) = (disk.clone(), clock.clone(), 100);
        let schedule = move |ops: &[Op]| {
            if matches!(ops, [Op::Cancel(_), ..]) {
                young += 1;
                assert!(young < 200, "the call goes on for ever");
                let now = DueTime::reached_at(at(millis(wall.wall()) + 1));
                other.open().apply(&[put(&record(young, 10_000 + young as i64))], now).unwrap();
            }
        };
        let timers = DurableTimers::builder(Watched(disk.open(), schedule))
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, diary.writer(&clock), RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        for note in 0..7 {
            let _ = timers.schedule_at(ROUTE, at(1000 + u64::from(note)), Note(note)).await.unwrap();
        }
        assert_eq!(numbers(timers.cancel_all(DurableFilter::new().limit(2)).await.unwrap()), (7, 0));
        assert_eq!(timers.counts().await.unwrap().pending, 7, "one for each cancel stays");
    });
}

#[test]
fn a_count_says_when_there_may_be_more() {
    let (diary, disk) = (Diary::default(), MemoryDisk::new());
    life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        for _ in 0..25 {
            let requests = (0..4096).map(|number| Schedule::at(ROUTE, at(1000), Note(number))).collect();
            timers.schedule_all(requests).await.unwrap();
        }
        let counted = timers.count_matching(DurableFilter::new().limit(1)).await.unwrap();
        assert_eq!((counted.pending, counted.is_limited), (100_000, true));
        let counted = timers.count_matching(DurableFilter::new().route("other")).await.unwrap();
        assert_eq!((counted.pending, counted.is_limited), (0, false));
    });
}
