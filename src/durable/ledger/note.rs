//! What somebody who reads the log should know. Said outside of all locks, with the feature `tracing`.

use std::sync::Arc;

use crate::durable::id::DurableId;
use crate::durable::record::Record;
use crate::durable::store::StoreError;

/// Something worth a line in the log.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "read by the log"))]
pub(crate) enum Note {
    /// It begins with what the last life left.
    Recovering {
        /// Timers that are pending, in the near future or not.
        pending: u64,
        /// Deliveries that had begun.
        interrupted: u64,
    },
    /// So many overdue timers are loaded, and there are more.
    RecoveringStill {
        /// So many.
        overdue: u64,
    },
    /// All overdue timers are loaded.
    Recovered {
        /// So many.
        overdue: u64,
    },
    /// The store refuses to write.
    Refused(Arc<StoreError>),
    /// It writes again.
    WritesAgain,
    /// It cannot be read.
    CannotRead(Arc<StoreError>),
    /// It will not write any more.
    Ended(Arc<StoreError>),
    /// Timers of this route and type are set aside. Said once for each.
    Parked {
        /// The route.
        route: Arc<str>,
        /// The type of the message.
        message_type: Arc<str>,
    },
    /// The last process ended during the delivery of this record, and of no other.
    Buried {
        /// The record.
        record: Arc<Record>,
        /// Why it is a dead letter.
        reason: Arc<str>,
    },
    /// This record cannot be read, and is passed over.
    Damaged(Option<DurableId>),
}

impl Note {
    /// Says it.
    #[cfg(feature = "tracing")]
    pub(crate) fn say(&self) {
        use tracing::{error, info, warn};

        use crate::shown::Shown;

        const TARGET: &str = "actix_timers";
        match self {
            Self::Recovering { pending, interrupted } => {
                info!(target: TARGET, pending, interrupted, "recovering durable timers");
            }
            Self::RecoveringStill { overdue } => {
                info!(target: TARGET, overdue, "recovering durable timers: loading what is overdue");
            }
            Self::Recovered { overdue } => info!(target: TARGET, overdue, "durable timers have recovered"),
            Self::Refused(error) => warn!(target: TARGET, %error, "the store of durable timers refuses to write"),
            Self::WritesAgain => info!(target: TARGET, "the store of durable timers writes again"),
            Self::CannotRead(error) => warn!(target: TARGET, %error, "durable timers cannot be loaded"),
            Self::Ended(error) => error!(target: TARGET, %error, "nothing more is kept of durable timers"),
            Self::Parked { route, message_type } => {
                let [route, message_type] = [Shown(route), Shown(message_type)];
                warn!(target: TARGET, %route, %message_type, "durable timers are set aside: this build does not know their route or type");
            }
            Self::Buried { record, reason } => {
                let (id, route, attempt) = (record.id.to_string(), &*record.route, record.progress.attempt);
                warn!(target: TARGET, id, route, attempt, %reason, "a durable message became a dead letter");
            }
            Self::Damaged(id) => {
                let id = id.map(|id| id.to_string());
                error!(target: TARGET, id, "the record of a durable timer is damaged");
            }
        }
    }

    /// Nobody reads it.
    #[cfg(not(feature = "tracing"))]
    pub(crate) const fn say(&self) {}
}
