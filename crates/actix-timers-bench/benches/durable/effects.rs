//! Deliveries whose handlers write a row: with the end of the delivery, or before it in a transaction of their own; beside
//! handlers that write none. All timers are overdue at the start.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::rusqlite::{self, Connection};
use actix_timers_durable::store::EmbeddedStore;
use actix_timers_durable::{DueTime, Durable, DurableTimers, HandlerError};

use crate::fixture::{self, Delivered};
use crate::settings::Settings;
use bench::durable::Remind;
use bench::rows::{OURS, Row, Rows};
use bench::times::each;

const INSERT: &str = "INSERT INTO effects (text) VALUES (?1)";

/// The row of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Committed with the end.
    WithTheEnd,
    Nothing,
    /// Committed before the end, in another file: a writer in that of the store would hold it up.
    Before,
}

const SUBJECTS: [(Writes, &str); 3] = [
    (Writes::WithTheEnd, OURS),
    (Writes::Nothing, "an end without a row"),
    (Writes::Before, "an end after a row in a transaction"),
];

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    let count = |writes| match (settings.check, writes) {
        (true, _) => 500,
        (false, Writes::Before) => 10_000,
        (false, _) => 100_000,
    };
    let mut samples = [const { Vec::new() }; SUBJECTS.len()];
    for _ in 0..=settings.rounds {
        for ((writes, _), samples) in SUBJECTS.iter().zip(&mut samples) {
            samples.push(System::new().block_on(deliver(settings, *writes, count(*writes))));
        }
    }
    for ((_, subject), samples) in SUBJECTS.into_iter().zip(samples) {
        let size = count(Writes::WithTheEnd);
        // The first round does not count.
        rows.push(Row::new("deliver a row", "actor", subject, size, "ns a timer", samples[1..].to_vec()));
    }
}

/// Returns the nanoseconds for each timer.
async fn deliver(settings: &Settings, writes: Writes, count: u64) -> f64 {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let create = |connection: &Connection| connection.execute_batch("CREATE TABLE effects (text TEXT NOT NULL)");
    let mut store = EmbeddedStore::open(directory.path().join("store")).unwrap();
    store.transaction(create).unwrap();
    let own = Connection::open(directory.path().join("own.db")).unwrap();
    own.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    own.pragma_update(None, "synchronous", "full").unwrap();
    create(&own).unwrap();
    let hour = Duration::from_secs(3600);
    fixture::fill(&mut store, count, DueTime::reached_at(SystemTime::now() - hour));
    let delivered = Rc::<Delivered>::default();
    let shop = Shop { writes, own, delivered: Rc::clone(&delivered) }.start();
    let began = Instant::now();
    let timers = DurableTimers::builder(store).route::<Remind>(fixture::ROUTE, shop).start().unwrap();
    while (delivered.count.get() as u64) < count {
        delivered.one_more.notified().await;
    }
    while timers.counts().await.unwrap().pending > 0 {
        actix_rt::time::sleep(Duration::from_micros(200)).await;
    }
    let took = each(began.elapsed(), count as usize);
    timers.stop().await.unwrap();
    let file = if writes == Writes::Before { "own.db" } else { "store/timers.db" };
    let written = Connection::open(directory.path().join(file)).unwrap();
    let written: i64 = written.query_row("SELECT count(*) FROM effects", (), |row| row.get(0)).unwrap();
    assert_eq!(written.cast_unsigned(), if writes == Writes::Nothing { 0 } else { count });
    took
}

struct Shop {
    writes: Writes,
    own: Connection,
    delivered: Rc<Delivered>,
}

impl Actor for Shop {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

fn insert(connection: &Connection, remind: &Remind) -> rusqlite::Result<()> {
    connection.prepare_cached(INSERT)?.execute([&remind.text]).map(drop)
}

impl Handler<Durable<Remind>> for Shop {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        let delivered = Rc::clone(&self.delivered);
        let is_done = move || {
            delivered.count.set(delivered.count.get() + 1);
            delivered.one_more.notify_one();
        };
        if self.writes == Writes::WithTheEnd {
            let message = remind.message.clone();
            let ending = remind.complete_with(move |connection| Ok(insert(connection, &message)?));
            return Box::pin(async move {
                ending.await?;
                is_done();
                Ok(())
            });
        }
        if self.writes == Writes::Before {
            insert(&self.own, &remind).unwrap();
        }
        is_done();
        Box::pin(std::future::ready(Ok(())))
    }
}
