//! Failures of stores.

use std::path::PathBuf;

use crate::shown::shown;

/// The failure of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing of the group was kept, and the store continues; for example on a full disk.
    #[error("the store cannot write ({0}): nothing of the request was kept; free space or fix the cause, and retry")]
    Rejected(#[source] std::io::Error),
    /// The files are damaged, or cannot be opened anew: nothing of the request was kept.
    #[error(
        "the store has failed ({0}) and acknowledges nothing any more: restart the process when the cause is fixed"
    )]
    Failed(#[source] std::io::Error),
    /// The store on the network cannot be reached, or does not accept writes.
    #[error(
        "the store cannot be reached ({0}): nothing of the request was kept; it is accepted again when the store is back"
    )]
    Unavailable(String),
    /// A transaction of somebody else has locked the timer, or its key.
    #[error(
        "another transaction keeps the timer or its key locked: nothing of the request was kept; end that transaction, and \
         repeat the request"
    )]
    Locked,
    /// The connection broke before the reply.
    #[error(
        "the store did not reply in time ({0}), so the request may or may not have been kept: repeat it with an idempotency key"
    )]
    Unknown(String),
    /// A statement in a transaction of the caller failed.
    #[error(
        "a statement in the transaction failed ({0}), which aborts the transaction: roll it back, and repeat it when the cause \
         is fixed"
    )]
    Aborted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another process, or another store of this one, has the files open.
    #[error(
        "the store {} is in use: close the other process, or choose another directory; if this process had it open, it is not \
         closed yet: await `DurableTimers::stop` before, or the end of a backup, or retry later",
        shown(.0)
    )]
    InUse(PathBuf),
    /// Other users of the machine may have written to the directory.
    #[error(
        "other users can write to the directory of the store {path} (mode {mode:o}), so its content may be theirs: if you \
         trust it, run `chmod 700` on it; else choose another directory",
        path = shown(path)
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// Another user of the machine owns the directory. Nothing was opened or changed.
    #[error(
        "the user {owner} owns the directory {path}, and this process runs as the user {user}: run it as that user, or `chown` \
         it if you trust its content, or choose another directory",
        path = shown(path)
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the process's user.
        user: u32,
    },
    /// A backup into the directory was interrupted.
    #[error(
        "{} holds a backup that was not finished, which is no store: back up into it again, or remove it and restore another one",
        shown(.0)
    )]
    UnfinishedBackup(PathBuf),
    /// The directory holds other files.
    #[error("{path} is not a timer store ({reason}): choose another directory, or an empty one", path = shown(path))]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The store was written by a later version.
    #[error(
        "the store {path} has format {found}, and this version knows formats up to {known}: use a newer version of actix-timers",
        path = shown(path)
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
        /// The newest supported format.
        known: u32,
    },
    /// The files cannot be opened or read.
    #[error(
        "the store {path} cannot be read ({reason}): check its permissions; if it is damaged restore a backup",
        path = shown(path)
    )]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A record is larger than the store accepts.
    #[error(
        "a record of {size} bytes is larger than the {limit} bytes that the store takes: keep large data elsewhere"
    )]
    TooLarge {
        /// The size of the record in bytes.
        size: usize,
        /// The maximum size in bytes.
        limit: usize,
    },
    /// The store does not support the operation.
    #[error("this store has no {0}")]
    Unsupported(&'static str),
    /// The store was closed.
    #[error("the store is closed: the durable timers have been stopped")]
    Closed,
}

impl StoreError {
    /// Returns whether other requests fail, too.
    pub(crate) const fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Unavailable(_) | Self::Unknown(_) | Self::Closed)
    }
}
