//! The store as applications use it: durable timers with a route to an actor that counts its messages.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::{Durable, DurableMessage, DurableTimers, HandlerError};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::{Place, Store};
use crate::sql;
use crate::timer::{MESSAGE_TYPE, PAYLOAD, ROUTE, SHARDS};

/// The message; serialized it is as long as that of the other subjects.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Remind {
    number: u64,
    text: String,
}

impl DurableMessage for Remind {
    const NAME: &'static str = MESSAGE_TYPE;
}

pub(crate) fn remind(number: u64) -> Remind {
    let others = r#"{"number":,"text":""}"#.len() + number.to_string().len();
    Remind { number, text: "x".repeat(PAYLOAD - others) }
}

/// The handled messages.
#[derive(Default)]
pub(crate) struct Handled {
    count: Cell<usize>,
    /// The time of each message, by its number.
    times: RefCell<HashMap<u64, Instant>>,
    one_more: Notify,
}

impl Handled {
    fn add(&self, number: u64) {
        let earlier = self.times.borrow_mut().insert(number, Instant::now());
        assert!(earlier.is_none(), "{number} was handled twice");
        self.count.set(self.count.get() + 1);
        self.one_more.notify_one();
    }

    /// Waits until this many messages were handled.
    pub(crate) async fn wait_for(&self, count: usize) {
        while self.count.get() < count {
            self.one_more.notified().await;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// Returns the time at which a message was handled.
    pub(crate) fn time(&self, number: u64) -> Instant {
        self.times.borrow()[&number]
    }
}

struct Office {
    handled: Rc<Handled>,
}

impl Actor for Office {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        assert_eq!(remind.attempt, 1);
        self.handled.add(remind.message.number);
        Ok(())
    }
}

/// Starts a node that delivers, and waits until it owns all shards.
pub(crate) async fn start(place: &Place, store: Store, handled: &Rc<Handled>) -> DurableTimers {
    let office = Office { handled: handled.clone() }.start();
    let timers = DurableTimers::builder(store).route::<Remind>(ROUTE, office).start().unwrap();
    let client = sql::connect(&place.url).await;
    let patience = Instant::now() + Duration::from_secs(120);
    while !is_owned(place, &client).await {
        assert!(Instant::now() < patience, "no node owns all shards");
        actix_rt::time::sleep(Duration::from_millis(20)).await;
    }
    timers
}

/// Starts a node that delivers nothing.
pub(crate) fn schedule_only(store: Store) -> DurableTimers {
    DurableTimers::builder(store).name("web").declare::<Remind>(ROUTE).schedule_only().start().unwrap()
}

/// Returns whether each shard has an owner.
async fn is_owned(place: &Place, client: &Client) -> bool {
    let owned = format!("SELECT count(*) FROM {}.shards WHERE owner IS NOT NULL", place.schema);
    sql::number(client, &owned).await == u64::from(SHARDS)
}
