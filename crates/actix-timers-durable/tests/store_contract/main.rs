//! The contract of stores: the required behaviour of every implementation of `TimerStore`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod changes;
mod list;
mod model;
mod pages;
mod records;
mod redb_store;
mod subject;

/// Defines all tests for one store.
macro_rules! contract {
    ($name:ident, $subject:ty, [$($module:ident :: $test:ident),* $(,)?]) => {
        mod $name {
            $(#[test]
            fn $test() {
                crate::$module::$test::<$subject>();
            })*
        }
    };
}

macro_rules! stores {
    ($($name:ident: $subject:ty),* $(,)?) => {
        $(list::contract_tests!(contract, $name, $subject,);)*
    };
}

stores! {
    memory: crate::subject::InMemory,
    embedded: crate::subject::Embedded,
    redb: crate::subject::Redb,
}

// Keys of several shards are up to nodes: see the ledger's tests.
contract!(
    shared_memory,
    crate::subject::SharedMemory,
    [
        changes::claims_are_there_until_they_end,
        changes::only_the_present_owner_of_a_shard_may_write,
        changes::shards_do_not_see_each_other,
        pages::pages_are_in_the_order_of_positions,
        pages::a_page_ends_with_its_time_and_its_limit,
        pages::a_reader_sees_all_that_was_committed,
        pages::the_cursor_never_passes_pending_records,
    ]
);
