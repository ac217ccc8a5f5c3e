//! Several nodes on one store in memory.

use std::sync::{Arc, Mutex};

use actix::{Actor, Context, Handler};
use actix_timers::{CancelOutcome, RescheduleOutcome};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableBuildError, DurableFilter, DurableMessage, DurableTimers, HandlerError, MemoryStore, RouteOptions,
};

use support::durable::{Diary, Note, ROUTE, at, life, run_to};

fn schedule_only(disk: &MemoryDisk, clock: &actix_timers::ManualClock) -> DurableTimers {
    DurableTimers::builder(disk.open()).clock(clock.clone()).declare::<Note>(ROUTE).schedule_only().start().unwrap()
}

#[test]
fn timers_of_a_node_that_only_schedules_are_delivered_by_others() {
    let disk = MemoryDisk::shared(8);
    let [one, other] = [(); 2].map(|()| Diary::default());
    life(0, async |clock| {
        let web = schedule_only(&disk, &clock);
        let nodes = [&one, &other].map(|diary| diary.timers(&disk, &clock));
        for note in 1..=16 {
            let _ = web.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        }
        assert_eq!(web.counts().await.unwrap().pending, 16);
        assert_eq!(web.list(DurableFilter::new()).await.unwrap().timers.len(), 16);
        run_to(&clock, 1000).await;
        assert_eq!((one.len(), other.len()), (8, 8), "each owns half of the shards");
        assert_eq!(web.counts().await.unwrap().pending, 0);
        for timers in nodes.iter().chain([&web]) {
            timers.stop().await.unwrap();
        }
    });
}

#[test]
fn any_node_cancels_moves_and_finds_the_timers_of_others() {
    let disk = MemoryDisk::shared(4);
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        let web = schedule_only(&disk, &clock);
        let mut ids = Vec::new();
        for note in 1..=3 {
            ids.push(timers.schedule_at(ROUTE, at(500), Note(note)).await.unwrap().id());
        }
        assert_eq!(web.cancel(ids[0]).await.unwrap(), CancelOutcome::Cancelled);
        assert_eq!(web.cancel(ids[0]).await.unwrap(), CancelOutcome::NotFound);
        assert_eq!(web.reschedule_at(ids[1], at(2000)).await.unwrap(), RescheduleOutcome::Rescheduled);
        assert!(web.get(ids[2]).await.unwrap().is_some());
        run_to(&clock, 3000).await;
        assert_eq!(diary.deliveries(), [(500, 3), (2000, 2)]);
        timers.stop().await.unwrap();
        web.stop().await.unwrap();
    });
}

#[test]
fn a_drained_node_waits_for_its_handlers_while_others_deliver() {
    let disk = MemoryDisk::shared(4);
    let [leaving, staying] = [(); 2].map(|()| Diary::default());
    life(0, async |clock| {
        let old = leaving.timers(&disk, &clock);
        let tell: Vec<_> = (1..=4).map(|note| leaving.hold(note)).collect();
        for note in 1..=4 {
            let _ = old.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        }
        run_to(&clock, 20).await;
        assert_eq!(leaving.len(), 4);
        for note in 5..=8 {
            let _ = old.schedule_at(ROUTE, at(500), Note(note)).await.unwrap();
        }
        let new = staying.timers(&disk, &clock);
        let draining = actix::spawn({
            let old = old.clone();
            async move { old.drain().await }
        });
        run_to(&clock, 900).await;
        assert_eq!(staying.len(), 4, "all of the later ones, in time");
        assert!(staying.deliveries().iter().all(|(time, _)| (500..=600).contains(time)));
        assert!(!draining.is_finished());
        tell.into_iter().for_each(|tell| tell.send(()).unwrap());
        run_to(&clock, 3000).await;
        draining.await.unwrap().unwrap();
        assert_eq!(new.counts().await.unwrap().pending, 0);
        assert_eq!(staying.len(), 4, "the handlers' outcomes are kept");
        new.stop().await.unwrap();
    });
}

/// A message of a route that an old version of the service does not know.
#[derive(serde::Serialize, serde::Deserialize)]
struct Bill(u32);

impl DurableMessage for Bill {
    const NAME: &'static str = "bill";
}

#[derive(Clone, Default)]
struct Bills(Arc<Mutex<Vec<u32>>>);

impl Actor for Bills {
    type Context = Context<Self>;
}

impl Handler<Durable<Bill>> for Bills {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, bill: Durable<Bill>, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(bill.0);
        Ok(())
    }
}

#[test]
fn timers_of_a_new_route_are_delivered_while_old_nodes_run() {
    let disk = MemoryDisk::shared(8);
    let (diary, bills) = (Diary::default(), Bills::default());
    life(0, async |clock| {
        let web = DurableTimers::builder(disk.open()).clock(clock.clone()).declare::<Bill>("bills").schedule_only();
        let web = web.start().unwrap();
        let old = diary.timers(&disk, &clock);
        for bill in 0..16 {
            let _ = web.schedule_at("bills", at(10), Bill(bill)).await.unwrap();
            let _ = old.schedule_at(ROUTE, at(3000), Note(bill)).await.unwrap();
        }
        run_to(&clock, 1000).await;
        assert_eq!(web.counts().await.unwrap().parked, 16, "no node knows the route");
        let new =
            DurableTimers::builder(disk.open()).clock(clock.clone()).route::<Bill>("bills", bills.clone().start());
        let new = new.route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        run_to(&clock, 2000).await;
        let mut delivered = bills.0.lock().unwrap().clone();
        delivered.sort_unstable();
        assert_eq!(delivered, (0..16).collect::<Vec<_>>());
        run_to(&clock, 4000).await;
        assert_eq!((diary.len(), web.counts().await.unwrap().parked), (16, 0));
        for timers in [old, new, web] {
            timers.stop().await.unwrap();
        }
    });
}

#[test]
fn a_node_that_schedules_only_needs_a_shared_store() {
    life(0, async |_| {
        let alone = DurableTimers::builder(MemoryStore::new()).declare::<Note>(ROUTE).schedule_only().start();
        assert!(matches!(alone, Err(DurableBuildError::NotShared)));
        let declared = DurableTimers::builder(MemoryStore::new())
            .declare_with::<Note>(ROUTE, RouteOptions::new().pool("other"))
            .start();
        assert!(matches!(declared, Err(DurableBuildError::NotShared)));
    });
}
