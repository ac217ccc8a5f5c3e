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
