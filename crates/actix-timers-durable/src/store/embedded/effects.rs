//! Statements of applications on the connection of the store, in its transactions.

use std::cell::Cell;
use std::io;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ffi};

use super::super::{Delivery, Effect, Next, Outcome};
use super::changes::{Changes, Made};
use super::columns::run;
use super::place::SCHEMA;
use crate::store::StoreError;

thread_local! {
    /// Whether an application uses the connection.
    static IS_APPLICATION: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of an application that does not panic.
pub(super) fn as_application<T>(code: impl FnOnce() -> T) -> T {
    IS_APPLICATION.set(true);
    let made = code();
    IS_APPLICATION.set(false);
    made
}

/// Has the connection refuse statements of applications that concern others.
pub(super) fn guard(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.authorizer(Some(|context: AuthContext<'_>| {
        let is_refused = IS_APPLICATION.get() && concerns_others(context.action);
        if is_refused { Authorization::Deny } else { Authorization::Allow }
    }))
}

/// Returns whether a statement divides or ends the transaction, sets the connection, or changes rows or plans of the store.
fn concerns_others(action: AuthAction<'_>) -> bool {
    match action {
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => true,
        AuthAction::Attach { .. } | AuthAction::Detach { .. } | AuthAction::Analyze { .. } => true,
        AuthAction::Pragma { pragma_name, pragma_value } => {
            pragma_value.is_some() && !["table_info", "table_xinfo", "index_list", "index_info"].contains(&pragma_name)
        }
        // Its new name may be one of the store's, which it would hide.
        AuthAction::AlterTable { database_name: "temp", .. } => true,
        // The drop of a table deletes from it.
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. }
        // It would hide that of the store.
        | AuthAction::CreateVtable { table_name, .. }
        | AuthAction::CreateTempTable { table_name }
        | AuthAction::CreateTempView { view_name: table_name } => {
            SCHEMA.contains(&format!("CREATE TABLE {} (", table_name.to_ascii_lowercase()))
        }
        _ => false,
    }
}

impl Changes<'_> {
    /// Ends a delivery and makes the effect of its handler, or does neither.
    pub(super) fn end_with(&self, delivery: Delivery, next: &Next, effect: &Effect) -> rusqlite::Result<Made> {
        run(self.connection, "SAVEPOINT effect", &[])?;
        let ended = self.end(delivery, next)?;
        let is_there = ended != Outcome::NotFound;
        let is_made = is_there && as_application(|| effect.make(self.connection));
        // SQLite rolls back by itself after some failures, which only the application has seen.
        if self.connection.is_autocommit() {
            let reason = "a statement of a handler's effect ended the transaction".to_owned();
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), Some(reason)));
        }
        if !is_made {
            run(self.connection, "ROLLBACK TO effect", &[])?;
        }
        run(self.connection, "RELEASE effect", &[])?;
        let refused = || io::Error::other("the effect, or another change of its transaction, failed");
        Ok(if is_made || !is_there { Ok(ended) } else { Err(StoreError::Rejected(refused())) })
    }
}
