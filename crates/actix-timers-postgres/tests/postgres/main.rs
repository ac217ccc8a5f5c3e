//! The store on PostgreSQL: the contract of all stores, the rules of the protocol with several nodes, wrong set-ups.
//!
//! All but a few tests need a server: `tests/server` starts one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../faults/proxy.rs"]
#[allow(dead_code)]
mod proxy;

#[cfg(target_os = "linux")]
#[path = "../faults/server.rs"]
#[allow(dead_code)]
mod private;

mod cancel_all;
mod cancelled;
mod contract;
mod effects;
mod engines;
mod metrics;
mod nodes;
mod outages;
mod past;
mod pauses;
mod plans;
mod reads;
mod rules;
mod server;
mod services;
mod set_up;
mod sql;
mod tls;
mod transactions;
mod wires;
#[cfg(target_os = "linux")]
mod wrong_servers;

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
