//! A session: connects when it is needed, waits longer after each failure, sends statements together, and bounds them.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use actix_timers::integration::contain;
use actix_timers_durable::DurableId;
use actix_timers_durable::store::boot_clock;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::beat::Member;
use crate::connect::{check_settings, no_reply, open};
use crate::dial::LocalFuture;
use crate::error::{Failure, text};
use crate::metrics::{Meters, Role};
use crate::server::Server;

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LAST_DELAY: Duration = Duration::from_secs(2);
/// Time beyond the server's limit for a statement until a session counts as broken.
const GRACE: Duration = Duration::from_millis(1000);

/// The session is that of this node, so that others can end it.
pub(super) const LOCK: &str = "SELECT pg_advisory_lock_shared(-$1::bigint)";
const END: &str = "SELECT @schema@.end_sessions($1, 1000, true)";

/// The values of a statement.
pub(super) type Params<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send + '_>),*] };
}
pub(super) use params;

/// A statement with its values.
pub(super) struct Call<'a> {
    pub(super) sql: &'static str,
    pub(super) params: Params<'a>,
}

/// The facts that all sessions of a store need.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The id of the node, 0 before it joins.
    pub(super) node: AtomicI64,
    /// The end of the lease by the [boot clock](boot_clock), in nanoseconds.
    lease_end: AtomicU64,
    /// Routes that looks and claims have left out because they were paused; the character 30 stands for the node.
    paused: Mutex<HashSet<String>>,
    /// Since the durable timers have started.
    pub(super) meters: OnceLock<Arc<Meters>>,
}

impl Shared {
    pub(super) fn node(&self) -> i64 {
        self.node.load(Ordering::Acquire)
    }

    /// Notes the lease, and its end by the boot clock.
    pub(super) fn leased(&self, lease: Duration, end: Duration) {
        self.lease_end.store(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
        self.metered(|meters| meters.leased(lease, end));
    }

    pub(super) fn has_lease(&self) -> bool {
        boot_clock::now() < Duration::from_nanos(self.lease_end.load(Ordering::Acquire))
    }

    /// Updates metrics, if durable timers have started.
    pub(super) fn metered(&self, update: impl FnOnce(&Meters)) {
        if let Some(meters) = self.meters.get() {
            // The recorder is user code: after a panic of it metrics miss an update.
            _ = contain(|| update(meters));
        }
    }

    /// Notes the paused routes, separated by the character 31.
    pub(super) fn paused(&self, names: &str) {
        self.lock().extend(names.split('\u{1f}').map(str::to_owned));
    }

    /// Returns whether something was left out that is not paused any more.
    pub(super) fn has_resumed(&self, paused: &[&str]) -> bool {
        let mut left_out = self.lock();
        let number = left_out.len();
        left_out.retain(|name| paused.contains(&name.as_str()));
        left_out.len() < number
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the [module](self).
pub(super) struct Session {
    pub(super) server: Arc<Server>,
    pub(super) shared: Arc<Shared>,
    /// The node, of the session that writes; the others leave it as it is.
    pub(super) member: Member,
    /// Suspects that this node has claimed: they are not to blame if the reply was lost.
    pub(super) marked: HashSet<DurableId>,
    /// Whether the last changes found something locked.
    pub(super) has_locked: bool,
    /// The number of calls for changes.
    pub(super) turn: usize,
    /// The number of connections that broke, and of other replies that are lost: unknown claims may have come with each.
    pub(super) breaks: u64,
    pub(super) role: Role,
    live: Option<Live>,
    trouble: Option<Trouble>,
}

struct Live {
    client: Client,
    task: JoinHandle<()>,
    statements: HashMap<&'static str, Statement>,
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

/// Returns the settings of all sessions. Their statements are not subject to defaults of the server, the database or the
/// user. Statements are planned once, perhaps for an empty table: the settings leave each of them one index, and no scan of
/// all rows. A time limit in force when a message begins stays in force until one of zero ends it, so that comes first.
pub(super) fn settings(server: &Server) -> String {
    let millis = server.timeout.as_millis();
    format!(
        "SET statement_timeout = 0; SET lock_timeout = 50; SET idle_in_transaction_session_timeout = {millis};
        SET idle_session_timeout = 0;
        SET standard_conforming_strings = on; SET search_path = pg_catalog; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD';
        SET default_transaction_isolation = 'read committed'; SET default_transaction_deferrable = off; SET jit = off;
        SET enable_indexscan = on; SET enable_indexonlyscan = on; SET enable_nestloop = on;
        SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
        SET plan_cache_mode = force_generic_plan; SET statement_timeout = {millis};
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> 'remote_apply'"
    )
}

impl Session {
    pub(super) fn new(server: Arc<Server>, shared: Arc<Shared>, role: Role, member: Member) -> Self {
        Self {
            server,
            shared,
            member,
            marked: HashSet::new(),
            has_locked: false,
            turn: 0,
            breaks: 0,
            role,
            live: None,
            trouble: None,
        }
    }

    pub(super) fn node(&self) -> i64 {
        self.shared.node()
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        self.live().await.map(drop)
    }

    /// Runs a statement.
    pub(super) async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let rows = self.send(&[Call { sql, params }]).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Runs statements in one transaction and one round trip, and returns their rows.
    pub(super) async fn send(&mut self, calls: &[Call<'_>]) -> Result<Vec<Vec<Row>>, Failure> {
        let limit = self.server.timeout + GRACE;
        let server = Arc::clone(&self.server);
        let live = self.live().await?;
        let sent = async {
            let missing = calls.iter().map(|call| call.sql).filter(|sql| !live.statements.contains_key(sql));
            let missing: Vec<_> = missing.collect();
            let texts: Vec<_> = missing.iter().map(|sql| server.schema.sql(sql)).collect();
            let prepared = all(texts.iter().map(|text| live.client.prepare(text))).await;
            for (sql, prepared) in missing.into_iter().zip(prepared) {
                // Nothing was executed.
                let statement = prepared.map_err(|error| match Failure::of(&error) {
                    Failure::NoReply(text) => Failure::NotSent(text),
                    failure => failure,
                })?;
                live.statements.insert(sql, statement);
            }
            let client = &live.client;
            let bracket = |sql: &'static str| -> LocalFuture<'_, Result<Vec<Row>, Error>> {
                Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) })
            };
            let mut flight = Vec::new();
            for call in calls {
                let Some(statement) = live.statements.get(call.sql) else { continue };
                let query: LocalFuture<'_, _> = Box::pin(async move {
                    let params: Vec<&(dyn ToSql + Sync)> = call.params.iter().map(|param| &**param as _).collect();
                    client.query(statement, &params).await
                });
                flight.push(query);
            }
            let is_group = flight.len() > 1;
            if is_group {
                flight.insert(0, bracket("BEGIN"));
                flight.push(bracket("COMMIT"));
            }
            // The first error is the cause of the others.
            let rows: Result<Vec<_>, _> = all(flight).await.into_iter().collect();
            let mut rows = rows.map_err(|error| Failure::of(&error))?;
            if is_group {
                rows.pop();
                rows.remove(0);
            }
            Ok(rows)
        };
        let sent = match timeout(limit, sent).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure::NoReply(no_reply(limit))),
        };
        match &sent {
            Err(Failure::NoReply(_) | Failure::NotSent(_)) => self.break_off(),
            // The server has become a standby.
            Err(failure) if failure.has_state("25006") => self.break_off(),
            _ => {}
        }
        sent
    }

    /// Nobody has waited for the end of a call: as after the loss of a connection, the next beat finds its claims, and looks begin
    /// anew.
    pub(super) fn lose_reply(&mut self) {
        self.breaks += 1;
        self.member.is_unheard = true;
    }

    /// Drops a connection whose state is unknown.
    fn break_off(&mut self) {
        if self.live.take().is_some() {
            self.breaks += 1;
        }
    }

    async fn live(&mut self) -> Result<&mut Live, Failure> {
        if self.live.as_ref().is_some_and(|live| live.client.is_closed()) {
            self.break_off();
        }
        let live = match self.live.take() {
            Some(live) => live,
            None => self.try_to_open().await.map_err(Failure::NotSent)?,
        };
        Ok(self.live.insert(live))
    }

    /// Opens a connection, unless the last try was a moment ago.
    async fn try_to_open(&mut self) -> Result<Live, String> {
        if let Some(trouble) = self.trouble.as_ref().filter(|trouble| Instant::now() < trouble.again) {
            return Err(trouble.text.clone());
        }
        let opened = self.open().await;
        self.trouble = opened.as_ref().err().map(|text| {
            let delay = self.trouble.as_ref().map_or(FIRST_DELAY, |last| (last.delay * 2).min(LAST_DELAY));
            Trouble { again: Instant::now() + delay, delay, text: text.clone() }
        });
        if opened.is_ok() && self.breaks > 0 {
            self.shared.metered(|meters| meters.reconnected(self.role));
        }
        opened
    }

    async fn open(&mut self) -> Result<Live, String> {
        let limit = self.server.timeout;
        let (client, task) = open(&self.server).await?;
        let live = Live { client, task, statements: HashMap::new() };
        timeout(limit, self.set_up(&live.client)).await.map_err(|_| no_reply(limit))??;
        Ok(live)
    }

    async fn set_up(&mut self, client: &Client) -> Result<(), String> {
        client.batch_execute(&settings(&self.server)).await.map_err(|error| text(&error))?;
        check_settings(client).await.map_err(|error| error.to_string())?;
        let node = self.node();
        if self.role == Role::Writer && node != 0 {
            let Server { schema, .. } = &*self.server;
            let error = |error| text(&error);
            // The last statements of the earlier session may be on their way.
            let ended = client.query_one(&schema.sql(END), &[&node]).await.map_err(error)?;
            if !ended.get::<_, bool>(0) {
                return Err("the earlier session of this node has not ended".to_owned());
            }
            // Before any other statement.
            client.execute(LOCK, &[&node]).await.map_err(error)?;
        }
        Ok(())
    }
}

/// Waits for all, and polls them in their order: so they are sent in it.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
