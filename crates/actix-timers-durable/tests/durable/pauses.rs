//! Pauses of routes, nodes and timers, by people and by themselves.

use actix_timers::{CancelOutcome, scrape};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DurableError, DurableFilter, DurableState, DurableTimers, Pause, PauseTarget, RouteOptions,
};
use metrics_exporter_prometheus::PrometheusBuilder;

use support::durable::{Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, quick, run_to};

on_every_store! {
    a_pause_is_kept_until_it_is_resumed_or_its_time
    a_paused_node_delivers_nothing
    a_paused_timer_waits_alone
    failures_in_a_row_pause_their_route
    failures_during_a_pause_do_not_count
    pauses_of_other_routes_leave_failures_counted
    failures_leave_an_earlier_pause
    a_pause_that_cannot_be_is_an_error
}

fn route() -> PauseTarget {
    PauseTarget::Route(ROUTE.into())
}

fn a_pause_is_kept_until_it_is_resumed_or_its_time(mut medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        timers.pause(Pause::route(ROUTE).until(at(500))).await.unwrap();
        notes(&timers, ROUTE, [(5, 10)]).await;
        run_to(&clock, 499).await;
        assert_eq!(diary.len(), 0);
        run_to(&clock, 600).await;
        assert_eq!((diary.deliveries(), timers.pauses().await.unwrap()), (vec![(500, 5)], vec![]));
        let tell = diary.hold(1);
        notes(&timers, ROUTE, [(1, 610), (2, 620), (3, 630)]).await;
        run_to(&clock, 615).await;
        assert!(timers.pause(Pause::route(ROUTE).by("ops").because("no mail")).await.unwrap());
        notes(&timers, ROUTE, [(4, 615)]).await;
        run_to(&clock, 700).await;
        tell.send(()).unwrap();
        run_to(&clock, 800).await;
        assert_eq!(diary.deliveries()[1..], [(610, 1)], "a running handler runs on, and nothing else begins");
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.parked, counts.dead), (3, 0, 0), "it has ended; the others wait");
        let pauses = timers.pauses().await.unwrap();
        let [pause] = &pauses[..] else { panic!("{pauses:?}") };
        assert_eq!((pause.who.as_deref(), pause.why.as_deref(), pause.until), (Some("ops"), Some("no mail"), None));
        medium.crash();
    });
    life(1000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 60_000).await;
        assert_eq!(diary.len(), 2, "it survives the process");
        assert!(timers.resume(&route()).await.unwrap());
        assert!(!timers.resume(&route()).await.unwrap());
        run_to(&clock, 70_000).await;
        assert_eq!(diary.deliveries()[2..], [(60_000, 4), (60_000, 2), (60_000, 3)], "in the order of their due times");
        assert_eq!(timers.counts().await.unwrap(), Default::default());
        timers.stop().await.unwrap();
    });
}

fn a_paused_node_delivers_nothing(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).name(ROUTE).start().unwrap();
        timers.pause(Pause::node(ROUTE)).await.unwrap();
        assert!(!timers.resume(&route()).await.unwrap(), "a route of this name is not paused");
        let _ = timers.schedule_after(ROUTE, ms(10), Note(1)).await.unwrap();
        run_to(&clock, 500).await;
        timers.stop().await.unwrap();
    });
    assert_eq!(diary.len(), 0);
    // One of another name does.
    life(1000, async |clock| {
        let timers = diary.builder(&medium, &clock).name("other").start().unwrap();
        run_to(&clock, 1500).await;
        assert_eq!(diary.deliveries(), [(1000, 1)]);
        assert!(timers.resume(&PauseTarget::Node(ROUTE.into())).await.unwrap());
        timers.stop().await.unwrap();
    });
}

fn a_paused_timer_waits_alone(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let paused = notes(&timers, ROUTE, [(1, 10), (2, 10)]).await[0];
        assert!(timers.pause(Pause::timer(paused).by("ops").because("a dispute")).await.unwrap());
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(10, 2)]);
        let parked = timers.list(DurableFilter::parked()).await.unwrap().timers;
        let reason = "paused by ops: a dispute".into();
        assert_eq!(
            parked.iter().map(|info| (info.id, &info.state)).collect::<Vec<_>>(),
            [(paused, &DurableState::Parked { reason })]
        );
        timers.stop().await.unwrap();
    });
    life(200, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 500).await;
        assert_eq!(diary.len(), 1, "a start resumes none");
        let paused = timers.list(DurableFilter::parked()).await.unwrap().timers[0].id;
        assert!(timers.resume(&PauseTarget::Timer(paused)).await.unwrap());
        run_to(&clock, 600).await;
        assert_eq!(diary.deliveries()[1..], [(500, 1)]);
        assert!(!timers.pause(Pause::timer(paused)).await.unwrap(), "it is complete");
        // A series that is paused while its handler runs stops after this repetition.
        let tell = diary.hold(3);
        let series = timers.schedule_at_fixed_rate(ROUTE, ms(100), Note(3)).await.unwrap().id();
        run_to(&clock, 750).await;
        assert!(timers.pause(Pause::timer(series)).await.unwrap());
        tell.send(()).unwrap();
        run_to(&clock, 2050).await;
        assert_eq!(diary.deliveries()[2..], [(700, 3)]);
        assert!(timers.resume(&PauseTarget::Timer(series)).await.unwrap());
        run_to(&clock, 2150).await;
        assert_eq!(diary.deliveries()[3..], [(2050, 3), (2100, 3)]);
        assert_eq!(timers.cancel(series).await.unwrap(), CancelOutcome::Cancelled);
        timers.stop().await.unwrap();
    });
}

fn failures_in_a_row_pause_their_route(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let options = RouteOptions::new().retry(quick()).window(1).pause_after_failures(3);
        let timers = DurableTimers::builder(medium.open())
            .name("office")
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, diary.writer(&clock), options)
            .start()
            .unwrap();
        // Two failures, a snooze and a success are none in a row.
        diary.script(1, [Act::Fail, Act::Snooze(ms(10)), Act::Fail]);
        diary.script(2, [Act::Fail]);
        diary.script(3, [Act::FailForGood]);
        notes(&timers, ROUTE, [(1, 10), (2, 1000), (3, 1050), (4, 3000)]).await;
        run_to(&clock, 2000).await;
        assert_eq!(timers.pauses().await.unwrap(), []);
        assert_eq!(diary.len(), 7);
        // Of different timers, retried or dead letters; a time-out is a failure, too.
        diary.script(5, [Act::FailForGood]);
        diary.script(6, [Act::Fail, Act::Fail]);
        diary.script(7, [Act::Snooze(ms(1)), Act::Hang]);
        notes(&timers, ROUTE, (5..=8).map(|note| (note, 2000 + u64::from(note)))).await;
        run_to(&clock, 10_000).await;
        assert_eq!(diary.deliveries()[7..].iter().map(|(_, note)| *note).collect::<Vec<_>>(), [5, 6, 7, 7]);
        let pauses = timers.pauses().await.unwrap();
        let [Pause { target, until: None, who: Some(who), why: Some(why), .. }] = &pauses[..] else {
            panic!("{pauses:?}")
        };
        assert_eq!((target, &**who), (&route(), "office"));
        assert_eq!(&**why, "failures in a row: 3, the last: the handler had not ended after 1s");
        assert!(timers.resume(&route()).await.unwrap());
        run_to(&clock, 11_000).await;
        assert_eq!(timers.counts().await.unwrap().pending, 0, "the count begins anew");
        assert_eq!(timers.pauses().await.unwrap(), []);
        timers.stop().await.unwrap();
    });
}

/// Of five handlers that run together all fail, the last while their route is paused.
fn failures_during_a_pause_do_not_count(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers_with(&medium, &clock, RouteOptions::new().retry(quick()).pause_after_failures(2));
        (1..=4).for_each(|note| diary.script(note, [Act::FailForGood]));
        diary.script(5, [Act::Hang, Act::Fail]);
        notes(&timers, ROUTE, [(1, 10), (2, 10), (3, 10), (5, 10), (4, 3000)]).await;
        run_to(&clock, 2000).await;
        assert_eq!((diary.len(), timers.pauses().await.unwrap().len()), (4, 1));
        assert!(timers.resume(&route()).await.unwrap());
        run_to(&clock, 2010).await;
        assert_eq!((diary.len(), timers.pauses().await.unwrap()), (5, vec![]), "one failure since then");
        timers.stop().await.unwrap();
    });
}

fn pauses_of_other_routes_leave_failures_counted(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let options = RouteOptions::new().retry(quick()).pause_after_failures(3);
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let builder = builder.route_with::<Note>(ROUTE, diary.writer(&clock), options);
        let timers = builder.route::<Note>("other", diary.writer(&clock)).start().unwrap();
        (1..=6).for_each(|note| diary.script(note, [Act::FailForGood]));
        notes(&timers, ROUTE, (1..=6).map(|note| (note, 1500 * u64::from(note)))).await;
        // One of its own that is over stays in the store.
        timers.pause(Pause::route(ROUTE).until(at(100))).await.unwrap();
        let other = Pause::route("other");
        for n in 1..=6 {
            timers.pause(other.clone()).await.unwrap();
            run_to(&clock, 1500 * n).await;
            timers.resume(&other.target).await.unwrap();
        }
        assert_eq!(diary.len(), 3);
        assert_eq!(timers.pauses().await.unwrap()[0].target, route());
        timers.stop().await.unwrap();
    });
}

fn failures_leave_an_earlier_pause(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let options = RouteOptions::new().retry(quick()).pause_after_failures(1);
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone()).name("office");
        let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), options).start().unwrap();
        diary.script(1, [Act::Hang, Act::Fail]);
        let _ = timers.schedule_after(ROUTE, ms(10), Note(1)).await.unwrap();
        run_to(&clock, 100).await;
        timers.pause(Pause::route(ROUTE).by("ops").until(at(3000))).await.unwrap();
        for (until, failures, who) in [(2000, 1, "ops"), (4000, 2, "office")] {
            run_to(&clock, until).await;
            let pauses = timers.pauses().await.unwrap();
            assert_eq!((diary.len(), pauses[0].who.as_deref()), (failures, Some(who)));
        }
        timers.stop().await.unwrap();
    });
}

fn a_pause_that_cannot_be_is_an_error(medium: impl Medium) {
    life(0, async |clock| {
        let timers = Diary::default().timers(&medium, &clock);
        let unknown = timers.pause(Pause::route("dairy")).await;
        assert!(matches!(unknown, Err(DurableError::UnknownRoute { route }) if route == "dairy"));
        let unknown = timers.pause(Pause::node("dairy")).await;
        assert!(matches!(unknown, Err(DurableError::UnknownNode { node }) if node == "dairy"));
        let timer = timers.schedule_after(ROUTE, ms(10), Note(1)).await.unwrap().id();
        let until = timers.pause(Pause::timer(timer).until(at(100))).await;
        assert!(matches!(until, Err(DurableError::TimerPausedUntil)));
        assert_eq!(timers.pauses().await.unwrap(), []);
        timers.stop().await.unwrap();
        assert!(matches!(timers.pause(Pause::route(ROUTE)).await, Err(DurableError::Closed)));
    });
}

#[test]
fn a_pause_holds_for_all_names_of_a_route() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    for start in [0, 20] {
        life(start, async |clock| {
            let builder = DurableTimers::builder(disk.open()).clock(clock.clone());
            if start == 0 {
                let former = builder.open_route::<Note>("former").start().unwrap();
                notes(&former, "former", [(1, 10)]).await;
                return former.stop().await.unwrap();
            }
            let options = RouteOptions::new().alias("former");
            let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), options).start().unwrap();
            timers.pause(Pause::route(ROUTE)).await.unwrap();
            run_to(&clock, 100).await;
            assert_eq!((diary.len(), timers.pauses().await.unwrap().len()), (0, 2));
            assert!(timers.resume(&route()).await.unwrap());
            run_to(&clock, 200).await;
            assert_eq!(diary.deliveries(), [(100, 1)]);
            timers.stop().await.unwrap();
        });
    }
}

#[test]
fn paused_routes_are_a_metric() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    life(0, async |clock| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let timers = metrics::with_local_recorder(&recorder, || diary.timers(&disk, &clock));
        let paused = || support::metric(&scrape(|| page.render()), "store_paused", "timer=\"durable\"");
        assert_eq!(paused(), 0.0);
        timers.pause(Pause::route(ROUTE).until(at(50))).await.unwrap();
        timers.pause(Pause::node("durable")).await.unwrap();
        for (time, count) in [(20, 2.0), (60, 1.0)] {
            run_to(&clock, time).await;
            assert_eq!(paused(), count, "at {time}");
        }
        timers.stop().await.unwrap();
    });
}
