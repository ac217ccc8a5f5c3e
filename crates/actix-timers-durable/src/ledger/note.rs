//! Log events of the ledger, emitted outside of all locks, with the feature `tracing`.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tracing")]
use actix_timers::integration::LogLimit;
#[cfg(feature = "tracing")]
use rustc_hash::FxHashMap;

use crate::id::DurableId;
use crate::record::Record;
use crate::store::StoreError;

/// A log event.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "read by the log"))]
pub(crate) enum Note {
    /// The recovery from the previous process begins.
    Recovering {
        /// Pending timers, in the near future or not.
        pending: u64,
        /// Interrupted deliveries.
        interrupted: u64,
    },
    /// Progress of a long recovery.
    RecoveringStill {
        /// Overdue timers loaded so far.
        overdue: u64,
    },
    /// All overdue timers are loaded.
    Recovered {
        /// Overdue timers loaded.
        overdue: u64,
    },
    /// The store rejects writes.
    Rejected(Arc<StoreError>),
    /// The store writes again.
    WritesAgain,
    /// The store cannot be read.
    CannotRead(Arc<StoreError>),
    /// The store will not write any more.
    Ended(Arc<StoreError>),
    /// A shard has another owner.
    ShardLost(u16),
    /// Timers of this route and type are parked. Reported once for each.
    Parked { route: Arc<str>, message_type: Arc<str> },
    /// A record becomes a dead letter.
    DeadLetter {
        record: Arc<Record>,
        reason: Arc<str>,
        /// Warnings about dead letters of its route that were withheld before; `None` if this one is, too.
        suppressed: Option<u64>,
    },
    /// A record cannot be read, and is skipped.
    Damaged(Option<DurableId>),
    /// A newer version has written a record, which is skipped.
    Newer { id: DurableId, version: u8 },
}

impl Note {
    /// Emits the event. `timer` is the name of the durable timers. A panic of the subscriber is caught.
    #[cfg(feature = "tracing")]
    pub(crate) fn say(&self, timer: &str) {
        let _ = crate::contain::contain(|| self.emit(timer));
    }

    #[cfg(feature = "tracing")]
    fn emit(&self, timer: &str) {
        use tracing::{debug, error, info, warn};

        use actix_timers::integration::Shown;

        const TARGET: &str = "actix_timers";
        match self {
            Self::Recovering { pending, interrupted } => {
                info!(target: TARGET, pending, interrupted, "recovering durable timers");
            }
            Self::RecoveringStill { overdue } => {
                info!(target: TARGET, overdue, "recovering durable timers: loading overdue timers");
            }
            Self::Recovered { overdue } => info!(target: TARGET, overdue, "durable timers have recovered"),
            Self::Rejected(error) => warn!(target: TARGET, %error, "the store of durable timers rejects writes"),
            Self::WritesAgain => info!(target: TARGET, "the store of durable timers writes again"),
            Self::CannotRead(error) => warn!(target: TARGET, %error, "durable timers cannot be loaded"),
            Self::Ended(error) => error!(target: TARGET, %error, "nothing more is kept of durable timers"),
            Self::ShardLost(shard) => info!(target: TARGET, shard, "another node owns a shard of the durable timers"),
            Self::Parked { route, message_type } => {
                let [route, message_type] = [Shown(route), Shown(message_type)];
                warn!(target: TARGET, %route, %message_type, "durable timers are set aside: this build does not know their route or type");
            }
            Self::DeadLetter { record, reason, suppressed } => {
                let id = tracing::field::display(record.id);
                let (route, attempt, reason) = (&*record.route, record.progress.attempt, &**reason);
                debug!(target: TARGET, timer, id, route, attempt, reason, "durable dead letter");
                if let Some(suppressed) = suppressed {
                    warn!(
                        target: TARGET,
                        timer,
                        id,
                        route,
                        attempt,
                        reason,
                        suppressed,
                        "a durable message became a dead letter"
                    );
                }
            }
            Self::Damaged(id) => {
                let id = id.map(|id| id.to_string());
                error!(target: TARGET, id, "the record of a durable timer is damaged");
            }
            Self::Newer { id, version } => {
                let id = tracing::field::display(id);
                warn!(target: TARGET, id, version, "a durable timer is skipped: a newer version has written it");
            }
        }
    }

    /// Does nothing without the feature `tracing`.
    #[cfg(not(feature = "tracing"))]
    pub(crate) const fn say(&self, _: &str) {}
}

/// Keeps one of several equal reports of the ledgers of a node about their common store.
pub(super) fn once_for_all_shards(notes: &mut Vec<Note>) {
    let mut seen = [false; 3];
    notes.retain(|note| {
        let kind = match note {
            Note::Rejected(_) => 0,
            Note::WritesAgain => 1,
            Note::CannotRead(_) => 2,
            _ => return true,
        };
        !std::mem::replace(&mut seen[kind], true)
    });
}

/// Limits warnings about dead letters, by route and message type; bounded, since only known routes have dead letters.
#[derive(Debug, Default)]
pub(super) struct DeadLetterLimits(#[cfg(feature = "tracing")] FxHashMap<(Arc<str>, Arc<str>), LogLimit>);

impl DeadLetterLimits {
    /// Notes a dead letter at this monotonic time.
    #[cfg(feature = "tracing")]
    pub(super) fn note(&mut self, now: Duration, record: &Arc<Record>, reason: &Arc<str>) -> Note {
        let route = (Arc::clone(&record.route), Arc::clone(&record.message_type));
        let suppressed = self.0.entry(route).or_default().pass(now);
        Note::DeadLetter { record: Arc::clone(record), reason: Arc::clone(reason), suppressed }
    }

    /// Never suppresses without the feature `tracing`.
    #[cfg(not(feature = "tracing"))]
    pub(super) fn note(&mut self, _: Duration, record: &Arc<Record>, reason: &Arc<str>) -> Note {
        let Self() = self;
        Note::DeadLetter { record: Arc::clone(record), reason: Arc::clone(reason), suppressed: None }
    }
}
