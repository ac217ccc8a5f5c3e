//! A session: connects when it is needed, waits longer after each failure, and bounds each statement.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use crate::dial::Dial;
use crate::error::{Failure, text};
use crate::shared::Shared;
use crate::sql::Schema;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LAST_DELAY: Duration = Duration::from_secs(2);
/// Time beyond the server's limit for a statement until a session counts as broken.
const GRACE: Duration = Duration::from_millis(1000);

/// The way to the server.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) dial: Box<dyn Dial>,
    pub(crate) schema: Schema,
    pub(crate) node_name: String,
    /// Time limit of a statement, and of connecting.
    pub(crate) timeout: Duration,
}

impl Server {
    /// Returns the settings of all sessions: each statement ends in time, and names are those of `pg_catalog` alone.
    pub(crate) fn settings(&self) -> String {
        let millis = self.timeout.as_millis();
        format!(
            "SET statement_timeout = {millis}; SET lock_timeout = {millis}; \
             SET idle_in_transaction_session_timeout = {millis}; SET search_path = pg_catalog"
        )
    }
}

/// The use of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
    Keeper,
    /// Queries beside the commits, connected at the first one.
    Query,
}

impl Role {
    pub(crate) const ALL: [Self; 4] = [Self::Writer, Self::Reader, Self::Keeper, Self::Query];
}

/// Facts about the sessions of a node, on their thread.
#[derive(Default)]
pub(crate) struct Seat {
    /// The process of each session on the server, and the start time of that.
    processes: RefCell<[Option<(i32, String)>; Role::ALL.len()]>,
    /// The timeline of the server that the node has joined: another one may lack the last seconds.
    pub(crate) timeline: RefCell<Option<String>>,
    last_timeline: RefCell<String>,
    has_joined: Cell<bool>,
}

impl Seat {
    pub(crate) fn processes(&self) -> (Vec<i32>, Vec<String>) {
        self.processes.borrow().iter().flatten().cloned().unzip()
    }

    /// Notes that the node has joined on the present timeline.
    pub(crate) fn joined(&self) {
        *self.timeline.borrow_mut() = Some(self.last_timeline.borrow().clone());
        self.has_joined.set(true);
    }
}

/// See the [module](self).
pub(crate) struct Session {
    role: Role,
    pub(crate) server: Arc<Server>,
    pub(crate) seat: Rc<Seat>,
    pub(crate) shared: Arc<Shared>,
    live: Option<Live>,
    was_live: bool,
    /// The process that a broken session may have left.
    pub(crate) left: Option<(i32, String)>,
    trouble: Option<Trouble>,
}

struct Live {
    client: Client,
    task: JoinHandle<()>,
    statements: HashMap<String, Statement>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A failure to connect.
struct Trouble {
    again: Instant,
    delay: Duration,
    text: String,
}

impl Session {
    pub(crate) fn new(role: Role, server: Arc<Server>, seat: Rc<Seat>, shared: Arc<Shared>) -> Self {
        Self { role, server, seat, shared, live: None, was_live: false, left: None, trouble: None }
    }

    /// Connects, unless it is connected.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        self.live().await.map(drop)
    }

    /// Puts the schema into a text.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.server.schema.sql(text)
    }

    /// Runs a statement, and waits for all rows.
    pub(crate) async fn query(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        let limit = self.server.timeout + GRACE;
        let result = {
            let live = self.live().await?;
            let statement = match live.statements.get(sql) {
                Some(statement) => statement.clone(),
                None => {
                    let prepared = match timeout(limit, live.client.prepare(sql)).await {
                        Ok(prepared) => prepared.map_err(|error| Failure::of(&error)),
                        Err(_) => Err(Failure::NoReply(no_reply(limit))),
                    };
                    match prepared {
                        Ok(statement) => {
                            live.statements.insert(sql.to_owned(), statement.clone());
                            statement
                        }
                        // Nothing was executed.
                        Err(Failure::NoReply(text)) => {
                            self.break_off();
                            return Err(Failure::NotSent(text));
                        }
                        Err(failure) => return Err(failure),
                    }
                }
            };
            match timeout(limit, live.client.query(&statement, params)).await {
                Ok(result) => result.map_err(|error| Failure::of(&error)),
                Err(_) => Err(Failure::NoReply(no_reply(limit))),
            }
        };
        if let Err(Failure::NoReply(_)) = result {
            self.break_off();
        }
        result
    }

    /// Runs statements without results.
    pub(crate) async fn execute(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<(), Failure> {
        self.query(sql, params).await.map(drop)
    }

    /// Sets the time limit of the next statements, up to that of the server's.
    pub(crate) async fn limit(&mut self, limit: Duration) -> Result<(), Failure> {
        let millis = limit.min(self.server.timeout).as_millis().to_string();
        self.execute("SELECT set_config('statement_timeout', $1, false)", &[&millis]).await
    }

    /// Drops a connection whose state is unknown.
    fn break_off(&mut self) {
        if self.live.take().is_some() {
            self.left = self.seat.processes.borrow()[self.role as usize].clone();
        }
    }

    async fn live(&mut self) -> Result<&mut Live, Failure> {
        if self.live.as_ref().is_some_and(|live| live.client.is_closed()) {
            self.break_off();
        }
        if self.live.is_none() {
            if let Some(trouble) = self.trouble.as_ref().filter(|trouble| Instant::now() < trouble.again) {
                return Err(Failure::NotSent(trouble.text.clone()));
            }
            match self.open().await {
                Ok(live) => {
                    self.live = Some(live);
                    if std::mem::replace(&mut self.was_live, true) {
                        self.shared.activity.reconnected(self.role);
                    }
                    self.trouble = None;
                }
                Err(text) => {
                    let delay = self.trouble.as_ref().map_or(FIRST_DELAY, |last| (last.delay * 2).min(LAST_DELAY));
                    self.trouble = Some(Trouble { again: Instant::now() + delay, delay, text: text.clone() });
                    return Err(Failure::NotSent(text));
                }
            }
        }
        match &mut self.live {
            Some(live) => Ok(live),
            None => Err(Failure::NotSent("not connected".to_owned())),
        }
    }

    async fn open(&self) -> Result<Live, String> {
        let limit = self.server.timeout;
        let dialled = timeout(limit, self.server.dial.dial(&self.server.config)).await;
        let (client, connection) = dialled.map_err(|_| no_reply(limit))?.map_err(|error| text(&error))?;
        let task = spawn_local(async move { _ = connection.await });
        let live = Live { client, task, statements: HashMap::new() };
        timeout(limit, self.set_up(&live.client)).await.map_err(|_| no_reply(limit))??;
        Ok(live)
    }

    async fn set_up(&self, client: &Client) -> Result<(), String> {
        // Sets are small or looked up by an index. Reports of the others join larger ones.
        let of_role =
            if self.role == Role::Writer { "; SET enable_hashjoin = off; SET enable_mergejoin = off" } else { "" };
        let settings = format!(
            "{}; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET jit = off; \
             SET default_transaction_isolation = 'read committed'; SET enable_seqscan = off; \
             SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan{of_role}",
            self.server.settings()
        );
        client.batch_execute(&settings).await.map_err(|error| text(&error))?;
        let facts = client.query_one(FACTS, &[]).await.map_err(|error| text(&error))?;
        if facts.get(2) {
            return Err("the server is a standby".to_owned());
        }
        if facts.get::<_, String>(3) == "on" {
            return Err("the session is read-only".to_owned());
        }
        let timeline: String = facts.get::<_, Option<String>>(4).unwrap_or_default();
        if self.seat.timeline.borrow().as_ref().is_some_and(|joined| *joined != timeline) {
            // The new primary may lack the last commits: everything is read again.
            self.shared.rejoin();
        }
        *self.seat.last_timeline.borrow_mut() = timeline;
        let process = (facts.get(0), facts.get::<_, Option<String>>(1).unwrap_or_default());
        self.seat.processes.borrow_mut()[self.role as usize] = Some(process);
        if self.seat.has_joined.get() {
            // Before any statement, so that others can end this session.
            let (pids, started) = self.seat.processes();
            let sql =
                self.sql("UPDATE @schema@.nodes n SET pids = $2, started = $3::text[]::timestamptz[] WHERE n.id = $1");
            let node = self.shared.node();
            client.execute(&sql, &[&node, &pids, &started]).await.map_err(|error| text(&error))?;
        }
        Ok(())
    }
}

const FACTS: &str = "SELECT pg_backend_pid(),
    (SELECT a.backend_start::text FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()),
    pg_is_in_recovery(),
    current_setting('transaction_read_only'),
    CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END";

fn no_reply(limit: Duration) -> String {
    format!("no reply within {limit:?}")
}
