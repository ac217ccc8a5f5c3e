//! Timers cancelled, and dead letters changed, by filters.

use std::ops::{Bound, RangeBounds};
use std::time::SystemTime;

use actix_timers::Repeat;
use actix_timers_durable::store::{MemoryDisk, Op, Record, Store};
use actix_timers_durable::{
    CancelledAll, DueTime, DurableFilter, DurableId, DurableOptions, DurableTimers, RouteOptions, Schedule,
};
use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, Watched, at, behind, life, millis, ms, notes, on_every_store, one_life,
    quick, run_to,
};
use support::store::{put, record};
use support::{Gate, Random};

on_every_store! {
    random_filters_find_and_cancel_as_a_list_says
    deliveries_in_progress_are_told_apart
    dead_letters_are_changed_by_the_same_filters
    a_bulk_call_stops_at_its_maximum
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

/// Lists, counts and cancels by a filter, and checks that exactly the expected timers are found and gone.
async fn cancel(
    timers: &DurableTimers,
    filter: DurableFilter,
    all: &[(DurableId, Row)],
    is_match: impl Fn(&Row) -> bool,
) {
    let mut matches: Vec<_> = all.iter().filter(|(_, row)| is_match(row)).map(|(id, row)| (row.due, *id)).collect();
    matches.sort_unstable();
    let (mut listed, mut page) = (Vec::new(), Some(filter.clone()));
    while let Some(next) = page {
        let found = timers.list(next).await.unwrap();
        listed.extend(found.timers.iter().map(|info| (millis(info.due().to_system_time()), info.id)));
        page = found.next.map(|next| filter.clone().after(next));
    }
    assert_eq!(listed, matches, "{filter:?}");
    let expected = matches.len() as u64;
    let counted = timers.count_matching(filter.clone()).await.unwrap();
    assert_eq!((counted.pending, counted.parked, counted.dead), (expected, 0, 0), "{filter:?}");
    assert!(!counted.is_limited);
    assert_eq!(numbers(timers.cancel_all(filter.clone()).await.unwrap()), (expected, 0), "{filter:?}");
    for (id, row) in all {
        let is_gone = timers.get(*id).await.unwrap().is_none();
        assert_eq!(is_gone, matches.contains(&(row.due, *id)), "{filter:?}: {row:?}");
    }
    assert_eq!(timers.cancel_all(filter).await.unwrap(), CancelledAll::default(), "a repeated cancel finds nothing");
}

fn random_filters_find_and_cancel_as_a_list_says(medium: impl Medium) {
    const PREFIXES: [&str; 8] = ["", "a", "a%", "a_", "a\\", "ä", "Ä", "a-1"];
    const TENANTS: [&str; 3] = ["7", "' OR 1 = 1 --", ""];
    const ROUTES: [&str; 2] = [ROUTE, "other"];
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Note>("other").start().unwrap();
        for seed in 0..50 {
            let random = &mut Random::new(seed);
            let mut all = Vec::new();
            for number in 0..random.below(40) {
                let prefix = random.choose(&PREFIXES);
                let row = Row {
                    route: random.choose(&ROUTES),
                    key: (random.below(3) > 0).then(|| format!("{prefix}-{number}")),
                    tenant: (random.below(3) > 0).then(|| random.choose(&TENANTS)),
                    due: 1000 + random.below(10),
                };
                all.push((schedule(&timers, &row).await, row));
            }
            let mut filter = DurableFilter::new().limit(1 + random.below(4) as usize);
            let route = (random.below(2) == 0).then(|| random.choose(&ROUTES));
            let prefix = (random.below(2) == 0).then(|| random.choose(&PREFIXES));
            let key = (random.below(4) == 0).then(|| format!("{}-{}", random.choose(&PREFIXES), random.below(20)));
            let tenant = (random.below(3) == 0).then(|| random.choose(&TENANTS));
            let message_type = (random.below(4) == 0).then(|| random.choose(&["note", "not"]));
            filter = route.iter().fold(filter, |filter, route| filter.route(*route));
            filter = prefix.iter().fold(filter, |filter, prefix| filter.key_prefix(*prefix));
            filter = key.iter().fold(filter, |filter, key| filter.key(key.clone()));
            filter = tenant.iter().fold(filter, |filter, tenant| filter.header("tenant", *tenant));
            filter = message_type.iter().fold(filter, |filter, message_type| filter.message_type(*message_type));
            let mut bound = || match (random.below(4), 1000 + random.below(12)) {
                (0, time) => Bound::Included(time),
                (1, time) => Bound::Excluded(time),
                _ => Bound::Unbounded,
            };
            let due = (bound(), bound());
            filter = filter.due((due.0.map(at), due.1.map(at)));
            cancel(&timers, filter, &all, |row| {
                route.is_none_or(|route| row.route == route)
                    && prefix.is_none_or(|prefix| row.key.as_ref().is_some_and(|key| key.starts_with(prefix)))
                    && (key.is_none() || row.key == key)
                    && (tenant.is_none() || row.tenant == tenant)
                    && message_type != Some("not")
                    && due.contains(&row.due)
            })
            .await;
            timers.cancel_all(DurableFilter::new()).await.unwrap();
        }
        run_to(&clock, 5000).await;
        assert_eq!(diary.len(), 0);
    });
}

fn deliveries_in_progress_are_told_apart(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let go_on = diary.hold(1);
        diary.script(2, [Act::Fail]);
        let _ = timers.schedule_at_fixed_rate(ROUTE, Repeat::every(ms(8)), Note(4)).await.unwrap();
        notes(&timers, ROUTE, [(1, 10), (2, 10), (3, 1000)]).await;
        run_to(&clock, 20).await;
        let filter = DurableFilter::new().limit(1);
        let cancelled = timers.cancel_all(filter.clone()).await.unwrap();
        assert_eq!(numbers(cancelled), (3, 1), "one fails, and would be retried");
        assert_eq!(timers.cancel_all(filter).await.unwrap(), CancelledAll::default());
        go_on.send(()).unwrap();
        run_to(&clock, 5000).await;
        assert_eq!(diary.deliveries(), [(8, 4), (10, 1), (10, 2), (16, 4)], "a series ends with its timer");
        assert_eq!(timers.counts().await.unwrap(), Default::default());
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
        diary.script(10, [Act::FailForGood]);
        let series = Schedule::at_fixed_rate(ROUTE, Repeat::every(ms(50)).times(2), Note(10));
        timers.schedule(series.options(DurableOptions::new().if_absent("series"))).await.unwrap();
        run_to(&clock, 80).await;
        assert_eq!(timers.cancel_all(DurableFilter::dead()).await.unwrap(), CancelledAll::default());
        assert_eq!(timers.requeue_all(DurableFilter::dead().key_prefix("s")).await.unwrap(), 0, "it is pending");
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries()[9..], [(50, 10), (100, 10)], "the series of a letter goes on");
        let of_tenant = DurableFilter::dead().header("tenant", "8").limit(2);
        assert_eq!(timers.count_matching(of_tenant.clone()).await.unwrap().dead, 3);
        assert_eq!(timers.requeue_all(of_tenant).await.unwrap(), 3);
        run_to(&clock, 200).await;
        assert_eq!(diary.deliveries()[11..], [(100, 1), (100, 4), (100, 7)]);
        let past = DurableFilter::past_of(timers.list(DurableFilter::dead()).await.unwrap().timers[0].id);
        assert_eq!(timers.requeue_all(past.clone()).await.unwrap() + timers.discard_all(past).await.unwrap(), 0);
        assert_eq!(timers.discard_all(DurableFilter::dead().key_prefix("k3")).await.unwrap(), 1);
        assert_eq!(timers.discard_all(DurableFilter::dead().message_type("bill")).await.unwrap(), 0);
        assert_eq!(timers.discard_all(DurableFilter::new().message_type("note").limit(1)).await.unwrap(), 6);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

fn a_bulk_call_stops_at_its_maximum(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for number in 0..9 {
            diary.script(number, [Act::FailForGood]);
        }
        notes(&timers, ROUTE, (0..9).map(|number| (number, 10 + u64::from(number)))).await;
        let step = |filter: DurableFilter, most| filter.limit(2).at_most(most);
        for (most, cancelled) in [(0, 0), (3, 3), (2, 2)] {
            let outcome = timers.cancel_all(step(DurableFilter::new(), most)).await.unwrap();
            assert_eq!(numbers(outcome), (cancelled, 0));
        }
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(15, 5), (16, 6), (17, 7), (18, 8)], "the first ones are gone");
        assert_eq!(timers.requeue_all(step(DurableFilter::dead(), 1)).await.unwrap(), 1);
        assert_eq!(timers.discard_all(step(DurableFilter::dead(), 9)).await.unwrap(), 3);
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
        notes(&timers, ROUTE, [(1, 10), (2, 9000)]).await;
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
        notes(&timers, ROUTE, (0..7).map(|note| (note, 1000 + u64::from(note)))).await;
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

#[test]
fn a_timer_scheduled_after_the_call_is_left_alone() {
    support::in_real_time(async {
        let gate = Gate::default();
        let store = behind(&gate, &MemoryDisk::new());
        let timers = DurableTimers::builder(store).open_route::<Note>(ROUTE).start().unwrap();
        let schedule = |note| actix::spawn(timers.schedule_after(ROUTE, ms(3_600_000), Note(note)));
        let held = gate.shut();
        let first = schedule(1);
        while gate.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let cancelling = actix::spawn({
            let timers = timers.clone();
            async move { timers.cancel_all(DurableFilter::new()).await.unwrap() }
        });
        // It has read the clock, which goes on.
        tokio::task::yield_now().await;
        let called = SystemTime::now();
        while SystemTime::now() < called + ms(2) {
            tokio::task::yield_now().await;
        }
        let second = schedule(2);
        tokio::task::yield_now().await;
        drop(held);
        first.await.unwrap().unwrap();
        let second = second.await.unwrap().unwrap().id();
        cancelling.await.unwrap();
        assert!(timers.get(second).await.unwrap().is_some());
        timers.stop().await.unwrap();
    });
}
