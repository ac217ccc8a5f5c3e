#![cfg_attr(docsrs, feature(doc_cfg))]
// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![doc = include_str!("../README.md")]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. `sql/tables.sql`, and the functions in `sql/*.sql`: all that happens on the server. `sql` puts the schema into them.
//! 2. [`PostgresOptions`] (`options`), [`ConnectError`] (`error`), `connect`: checks, and the creation of the tables.
//! 3. `plan`: the changes of a commit as arrays, cut into steps; `outcomes`: back from the results.
//! 4. `session` on a connection (`dial`), and the thread of the sessions (`io`): `commit`, `reads` and `arrivals` run there.
//!    `reader`: reads in the session of the store, and in another one for queries from any thread.
//! 5. `keeper`: the lease (on the `boot_clock`), dead nodes, balance, `server_clock`. It reports through `shared`.
//!    `leases`: the state of new shards.
//! 6. [`metrics`]: the counters of the sessions, and the measurements of the keeper.
//! 7. [`PostgresStore`] (`store`, with `ownership`): the trait, on the caller's thread. `placement`: shards of new timers.
//!    `transaction`: timers in transactions of users.
//! 8. `rows`: the store that will take its place, not used by durable timers yet. `columns`: columns of today's one as values.

mod arrivals;
mod boot_clock;
mod columns;
mod commit;
mod connect;
mod dial;
mod error;
#[cfg(doc)]
pub mod guide;
mod io;
mod keeper;
mod leases;
pub mod metrics;
mod options;
mod outcomes;
mod ownership;
mod placement;
mod plan;
mod reader;
mod reads;
#[doc(hidden)]
pub mod rows;
mod server_clock;
mod session;
mod shared;
mod snapshot;
mod sql;
mod store;
mod transaction;

pub use error::ConnectError;
pub use options::PostgresOptions;
pub use store::PostgresStore;
