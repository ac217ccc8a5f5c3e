//! The store of rows on PostgreSQL: the contract of all stores, and the rules of the protocol with several nodes.
//!
//! All tests need a server: `tests/server` starts one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod contract;
mod plans;
mod rules;
mod server;
mod sql;
mod throughput;
mod wires;

/// Defines tests that need a server.
macro_rules! with_server {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])*
        #[test]
        #[ignore = "needs PostgreSQL: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres -- --include-ignored"]
        fn $name() $body)*
    };
}
pub(crate) use with_server;
