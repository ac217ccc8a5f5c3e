//! The store on PostgreSQL: the contract of all stores, random changes beside the store in memory, several nodes, wrong
//! set-ups.
//!
//! All but a few tests need a server: `tests/server` starts one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../actix-timers-durable/tests/store_contract/changes.rs"]
mod changes;
#[path = "../../../actix-timers-durable/tests/store_contract/list.rs"]
mod list;
#[path = "../../../actix-timers-durable/tests/store_contract/model.rs"]
mod model;
#[path = "../../../actix-timers-durable/tests/store_contract/pages.rs"]
mod pages;
#[path = "../../../actix-timers-durable/tests/store_contract/records.rs"]
mod records;

#[path = "../faults/proxy.rs"]
#[allow(dead_code)]
mod proxy;

#[cfg(target_os = "linux")]
#[path = "../faults/server.rs"]
#[allow(dead_code)]
mod private;

mod arrivals;
mod engines;
mod metrics;
mod nodes;
mod oracle;
mod outages;
mod plans;
mod reads;
mod routes;
mod server;
mod set_up;
mod sql_functions;
mod subject;
mod throughput;
mod tls;
mod transactions;
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

mod contract {
    macro_rules! contract {
        ([$($module:ident :: $test:ident),* $(,)?]) => {
            crate::with_server! { $(fn $test() { crate::$module::$test::<crate::subject::Postgres>(); })* }
        };
    }

    crate::list::contract_tests!(contract,);
}
