//! Deliveries whose handlers write a row: in the transaction that ends the delivery, or before the end in a transaction of their
//! own; beside handlers that write none.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::{Durable, DurableTimers, HandlerError, RouteOptions};
use actix_timers_postgres::PostgresStore;
use bench::durable::Remind;
use bench::rows::{OURS, Rows};
use bench::times::each;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::push;
use crate::node::Place;
use crate::settings::Settings;
use crate::sql;
use crate::timer::{self, ROUTE, Timer};

pub(crate) const WORKLOAD: &str = "deliver, the handler writes a row";
pub(crate) const UNIT: &str = "ns a timer";
pub(crate) const BEFORE: &str = "an end after a row in a transaction";
/// The handlers at work, each with a session.
const HANDLERS: usize = 32;

/// The row of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    WithTheEnd,
    Nothing,
    Before,
}

const SUBJECTS: [(Writes, &str); 3] =
    [(Writes::WithTheEnd, OURS), (Writes::Nothing, "an end without a row"), (Writes::Before, BEFORE)];

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::filled(url, "effects", Duration::from_secs(10), &timer::pending(settings.pending));
    place.session.execute("CREATE TABLE effects.written (number bigint NOT NULL)");
    let count = settings.timers / 8;
    // Enough for the schedules.
    let lead = Duration::from_secs(2) + Duration::from_micros(50) * count as u32;
    let (mut samples, mut first) = ([const { Vec::new() }; SUBJECTS.len()], 0);
    // The sessions of a service live long: a new one reads its functions at their first call.
    let system = System::new();
    let clients = Rc::<RefCell<Vec<Client>>>::default();
    system.block_on(async {
        for _ in 0..HANDLERS {
            let client = sql::connect(&place.url).await;
            clients.borrow_mut().push(client);
        }
    });
    for _ in 0..=settings.rounds {
        for ((writes, _), samples) in SUBJECTS.iter().zip(&mut samples) {
            place.session.execute("TRUNCATE effects.written");
            let timers = timer::spread(first..first + count as u64, lead, Duration::from_millis(1));
            first += count as u64;
            place.fill(&timers);
            samples.push(system.block_on(deliver(&place, *writes, &clients, &timers, settings.check)));
            let written = place.session.number("SELECT count(*) FROM effects.written");
            assert_eq!(written, if *writes == Writes::Nothing { 0 } else { count as u64 });
        }
    }
    push(rows, settings, WORKLOAD, UNIT, SUBJECTS.map(|(_, subject)| subject).into_iter().zip(samples));
}

/// Returns the nanoseconds for each timer. A figure needs a node that has started before the first one is due; a check does not.
async fn deliver(
    place: &Place,
    writes: Writes,
    clients: &Rc<RefCell<Vec<Client>>>,
    timers: &[Timer],
    may_be_late: bool,
) -> f64 {
    let store = place.connect().await;
    let done = Rc::<Cell<usize>>::default();
    let till = Till { store: store.clone(), writes, clients: Rc::clone(clients), done: Rc::clone(&done) }.start();
    let options = RouteOptions::new().window(HANDLERS);
    let node = DurableTimers::builder(store).route_with::<Remind>(ROUTE, till, options).start().unwrap();
    let begin: SystemTime = timers[0].due.into();
    match begin.duration_since(SystemTime::now()) {
        Ok(rest) => tokio::time::sleep(rest).await,
        Err(late) => assert!(may_be_late, "the schedules took too long: {late}"),
    }
    let began = Instant::now();
    let client = sql::connect(&place.url).await;
    let undone = place.undone(timers[0].millis() + 10);
    while done.get() < timers.len() || sql::number(&client, &undone).await > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    node.stop().await.unwrap();
    each(took, timers.len())
}

struct Till {
    store: PostgresStore,
    writes: Writes,
    clients: Rc<RefCell<Vec<Client>>>,
    done: Rc<Cell<usize>>,
}

impl Actor for Till {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<Durable<Remind>> for Till {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        let (store, clients, done) = (self.store.clone(), Rc::clone(&self.clients), Rc::clone(&self.done));
        let writes = self.writes;
        Box::pin(async move {
            if writes != Writes::Nothing {
                let mut client = clients.borrow_mut().pop().expect("one for each handler");
                let transaction = client.transaction().await?;
                let number = remind.number.cast_signed();
                let params: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
                let insert = transaction.query_typed("INSERT INTO effects.written VALUES ($1)", &params);
                if writes == Writes::WithTheEnd {
                    let (inserted, ended) = tokio::join!(insert, store.complete_in(&transaction, &remind));
                    inserted?;
                    ended?;
                } else {
                    insert.await?;
                }
                transaction.commit().await?;
                clients.borrow_mut().push(client);
            }
            done.set(done.get() + 1);
            Ok(())
        })
    }
}
