//! Failures of the database, and what they mean for a change.

use std::io;

use rusqlite::{Error, ErrorCode};

/// The meaning of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// There is no room: the transaction is rolled back, and the next one may succeed.
    Full,
    /// Another program writes to the database: nothing was changed.
    Busy,
    /// The system could not read or write: the files are opened anew before anything else.
    Io,
    /// The files are damaged: a backup must be restored.
    Damaged,
    /// It concerns the statement only.
    Statement,
}

pub(super) fn meaning(error: &Error) -> Meaning {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory) => Meaning::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Meaning::Busy,
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed,
        ) => Meaning::Io,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Meaning::Damaged,
        _ => Meaning::Statement,
    }
}

pub(super) fn io_error(error: Error) -> io::Error {
    match meaning(&error) {
        Meaning::Full => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => io::Error::other(error),
    }
}
