//! The store on PostgreSQL: the contract of all stores, random changes beside the store in memory, several nodes, wrong
//! set-ups.
//!
//! All but a few tests need a server: `tests/server` starts one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../actix-timers-durable/tests/store_contract/changes.rs"]
#[allow(dead_code)]
mod changes;
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
        ($($module:ident :: $test:ident),* $(,)?) => {
            crate::with_server! { $(fn $test() { crate::$module::$test::<crate::subject::Postgres>(); })* }
        };
    }

    contract! {
        changes::a_record_comes_back_as_it_was_put,
        changes::every_change_of_an_absent_record_returns_missing,
        changes::a_removed_timer_is_gone_with_its_key,
        changes::a_moved_timer_is_found_by_its_id_and_its_new_time_alone,
        changes::a_key_belongs_to_one_timer,
        changes::changes_of_a_group_see_the_changes_before_them,
        changes::a_failed_timer_is_a_dead_letter_until_it_is_requeued_or_discarded,
        changes::a_timer_that_repeats_goes_on_beside_its_dead_letter,
        changes::a_timer_that_is_set_aside_comes_back_as_it_was,
        changes::claims_are_there_until_they_end,
        changes::a_record_that_is_too_large_is_rejected_with_its_whole_group,
        changes::only_the_present_owner_of_a_shard_may_write,
        pages::pages_are_in_the_order_of_positions,
        pages::a_page_ends_with_its_time_and_its_limit,
        pages::the_ends_of_time_are_loaded,
        pages::the_cursor_never_passes_pending_records,
        model::random_changes_leave_the_state_of_the_model,
    }
}
