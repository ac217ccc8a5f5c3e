//! Sending a commit, and finding out its result if the reply is lost.

use std::sync::LazyLock;
use std::time::Duration;

use actix_timers_durable::StoreError;
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::Failure;
use crate::metrics::Resent;
use crate::plan::Arrays;
use crate::session::Session;

/// Attempts when transactions collide.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// The call of the function.
static STATEMENT: LazyLock<String> = LazyLock::new(|| {
    let values: Vec<_> = (1..=61).map(|number| format!("${number}")).collect();
    let (columns, values) = (crate::columns::COLUMNS, values.join(", "));
    format!("SELECT t.ord, t.code, t.other, {columns} FROM @schema@.commit({values}) t")
});

/// A commit to send.
pub(crate) struct Commit {
    pub(crate) node: i64,
    pub(crate) number: i64,
    pub(crate) arrays: Arrays,
    /// Whether other nodes may have removed this one.
    pub(crate) is_shared: bool,
    /// Time to find out a result without a reply.
    pub(crate) patience: Duration,
}

/// The reply to a commit.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The results in the order of the function.
    Rows(Vec<Row>),
    /// Number of the change, code, other id, of the results that are kept; moved records are not.
    Resolved(Vec<(i32, i16, Option<Uuid>)>),
    /// Folded keys must not be folded. Nothing was written.
    Unfold,
}

impl Commit {
    pub(crate) async fn send(mut self, session: &mut Session) -> Result<Reply, StoreError> {
        let sql = session.sql(&STATEMENT);
        let mut attempt = 1;
        loop {
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.node, &self.number, &self.arrays.is_lowering];
            params.extend(self.arrays.params());
            match session.query(&sql, &params).await {
                Ok(rows) => return Ok(Reply::Rows(rows)),
                Err(failure) if failure.has_state("ATU01") => return Ok(Reply::Unfold),
                Err(failure) if failure.is_collision() && attempt < ATTEMPTS => {
                    if failure.finds_known_timer() {
                        self.arrays.expect_known_timers();
                    }
                    session.shared.activity.resent(Resent::Collision);
                    attempt += 1;
                }
                Err(Failure::NoReply(text)) => return self.resolve(session, text).await,
                Err(failure) => return Err(failure.into_error()),
            }
        }
    }

    /// Ends the old session, and looks whether its commit is there.
    async fn resolve(&self, session: &mut Session, text: String) -> Result<Reply, StoreError> {
        session.shared.activity.lost_reply();
        let end = Instant::now() + self.patience;
        let left = session.left.clone();
        while Instant::now() < end {
            match self.look(session, left.as_ref()).await {
                Ok(Some(Look::Kept(results))) => return Ok(Reply::Resolved(results)),
                Ok(Some(Look::NotKept)) => return Err(StoreError::Unavailable(text)),
                Ok(Some(Look::CannotTell)) => break,
                Ok(None) | Err(_) => sleep(PAUSE).await,
            }
        }
        session.shared.rejoin();
        Err(StoreError::Unknown(text))
    }

    async fn look(&self, session: &mut Session, left: Option<&(i32, String)>) -> Result<Option<Look>, Failure> {
        if let Some((pid, started)) = left {
            let sql = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
                WHERE a.pid = $1 AND a.backend_start = $2::text::timestamptz";
            if !session.query(sql, &[pid, started]).await?.is_empty() {
                return Ok(None);
            }
        }
        let sql = session.sql(
            "SELECT EXISTS (SELECT FROM @schema@.nodes n WHERE n.id = $1), o.number IS NOT NULL, o.ords, o.codes, o.others
                FROM (SELECT 1) one LEFT JOIN @schema@.outcomes o ON o.node = $1 AND o.number = $2",
        );
        let rows = session.query(&sql, &[&self.node, &self.number]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        // Another server may lack the last commits, and a node that takes over removes the outcomes of the dead one.
        if self.is_shared && (session.shared.must_rejoin() || !row.get::<_, bool>(0)) {
            return Ok(Some(Look::CannotTell));
        }
        if !row.get::<_, bool>(1) {
            return Ok(Some(Look::NotKept));
        }
        let ords = row.get::<_, Option<Vec<i32>>>(2).unwrap_or_default();
        let codes = row.get::<_, Option<Vec<i16>>>(3).unwrap_or_default();
        let others = row.get::<_, Option<Vec<Option<Uuid>>>>(4).unwrap_or_default();
        let results = ords.into_iter().zip(codes).zip(others).map(|((ord, code), other)| (ord, code, other));
        Ok(Some(Look::Kept(results.collect())))
    }
}

/// The knowledge about a commit without a reply.
enum Look {
    Kept(Vec<(i32, i16, Option<Uuid>)>),
    NotKept,
    CannotTell,
}
