//! The store as applications use it: durable timers with a route to an actor that counts its messages.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers_durable::store::{EmbeddedStore, NewTimer, OnKey, Op, Store};
use actix_timers_durable::{DueTime, Durable, DurableId, DurableMessage, DurableTimers, HandlerError};
use bench::durable::{self, Remind, remind};
use tokio::sync::Notify;

pub(crate) const ROUTE: &str = "office";

struct Office {
    delivered: Rc<Delivered>,
}

#[derive(Default)]
pub(crate) struct Delivered {
    pub(crate) count: Cell<usize>,
    pub(crate) one_more: Notify,
}

impl Actor for Office {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, _: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        self.delivered.count.set(self.delivered.count.get() + 1);
        self.delivered.one_more.notify_one();
        Ok(())
    }
}

pub(crate) fn start(store: impl Store, delivered: &Rc<Delivered>) -> DurableTimers {
    let office = Office { delivered: delivered.clone() }.start();
    DurableTimers::builder(store).route::<Remind>(ROUTE, office).start().unwrap()
}

pub(crate) async fn schedule(timers: &DurableTimers, delay: Duration) {
    let scheduled = timers.schedule_after(ROUTE, delay, remind(0)).await.unwrap();
    assert!(scheduled.is_new());
}

/// Runs concurrent callers; each schedules this many timers, one after the other.
pub(crate) fn many_callers(
    timers: &DurableTimers,
    callers: usize,
    calls: usize,
    delay: Duration,
) -> Vec<actix_rt::task::JoinHandle<()>> {
    let caller = |_| {
        let timers = timers.clone();
        actix_rt::spawn(async move {
            for _ in 0..calls {
                schedule(&timers, delay).await;
            }
        })
    };
    (0..callers).map(caller).collect()
}

/// Fills a store before use: ten timers for each millisecond from `first_due` on.
pub(crate) fn fill(store: &mut EmbeddedStore, count: u64, first_due: DueTime) {
    let payload: Arc<[u8]> = remind(0).encode().unwrap().into();
    let record = |number| {
        let due = first_due.saturating_add(Duration::from_millis(number / 10));
        Arc::new(durable::record(DurableId::new(due), due, ROUTE, Arc::clone(&payload)))
    };
    for start in (0..count).step_by(4096) {
        let group = start..count.min(start + 4096);
        let put = group.map(|number| NewTimer { record: record(number), on_key: OnKey::KeepExisting });
        // A store stores no timer as due before the present time.
        store.apply(&[Op::Put(put.collect())], DueTime::MIN).unwrap();
    }
}
