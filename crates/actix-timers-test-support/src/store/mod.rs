//! The contract of [`Store`]: the required behaviour of every implementation.
//!
//! `random` compares thousands of random changes with the naive store in `model`; `named` checks the rest.
//! [`contract_tests!`](crate::contract_tests) defines all of them as tests of one store.

pub mod model;
pub mod named;
pub mod random;

use std::sync::Arc;

use actix_timers_durable::store::{
    Beat, Claim, Delivery, Filter, NewTimer, NodeInfo, OnKey, Op, Outcome, Progress, Record, Served, Store, Suspects,
};
use actix_timers_durable::{DueTime, DurableId, StoreError};

/// The stores under test.
pub trait Subject {
    type Store: Store;
    /// Rounds of random changes.
    const ROUNDS: u64 = 5;

    /// Returns an empty store that no node has joined.
    fn create(&mut self) -> Self::Store;

    /// Ends the process of the store, without a stop, and returns its data as another process opens them. `None`: they are
    /// gone with it.
    fn restart(&mut self, store: Self::Store) -> Option<Self::Store> {
        drop(store);
        None
    }

    /// Sets the clock of a store that does not go by its caller's time.
    fn set_now(&mut self, now: DueTime) {
        let _ = now;
    }
}

impl<S: Store, F: FnMut() -> S> Subject for F {
    type Store = S;
    const ROUNDS: u64 = 25;

    fn create(&mut self) -> S {
        self()
    }
}

/// The time at which tests begin.
pub const START: u64 = 1_700_000_000_000;
pub const NEWEST: u32 = 2;
/// The budget of the served types.
pub const BUDGET: u32 = 3;

pub fn at(offset: i64) -> DueTime {
    DueTime::from_millis(START.checked_add_signed(offset).unwrap()).unwrap()
}

/// Returns a record of route `a` that is due `offset` ms after the start.
pub fn record(number: u64, offset: i64) -> Record {
    Record {
        id: DurableId::from_parts(at(offset), number, number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        progress: Progress::first(at(offset)),
        route: "a".into(),
        message_type: "Order".into(),
        message_version: 1,
        key: None,
        repeat: None,
        keep_key: None,
        max_attempts: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: number.to_le_bytes().into(),
    }
}

pub fn put(record: &Record) -> Op {
    Op::Put(vec![new(record, OnKey::KeepExisting)])
}

pub fn new(record: &Record, on_key: OnKey) -> NewTimer {
    NewTimer { record: Arc::new(record.clone()), on_key }
}

/// Returns a node that serves these types.
pub fn node(serves: &Filter) -> NodeInfo {
    NodeInfo { name: "test".into(), serves: serves.clone() }
}

/// Returns a filter that serves the type `Order` of the routes.
pub fn serving(routes: &[&str]) -> Arc<Filter> {
    let served = |(index, route): (usize, &&str)| Served {
        index: 10 + index as u16,
        route: (*route).into(),
        message_type: "Order".into(),
        version: NEWEST,
        max_attempts: BUDGET,
    };
    Arc::new(Filter { served: routes.iter().enumerate().map(served).collect() })
}

pub fn claim(ids: &[DurableId]) -> Op {
    claim_as(ids, Suspects::Left)
}

pub fn claim_as(ids: &[DurableId], suspects: Suspects) -> Op {
    Op::Claim(Claim { ids: ids.to_vec(), suspects })
}

/// A store at a time.
pub struct World<'a, S: Subject> {
    pub subject: &'a mut S,
    pub store: S::Store,
    pub now: DueTime,
    /// The types that it serves.
    pub serves: Arc<Filter>,
}

impl<'a, S: Subject> World<'a, S> {
    pub fn new(subject: &'a mut S) -> Self {
        Self::serving(subject, serving(&["a", "b"]))
    }

    pub fn serving(subject: &'a mut S, serves: Arc<Filter>) -> Self {
        let now = at(0);
        subject.set_now(now);
        let store = subject.create();
        let mut world = Self { subject, store, now, serves };
        world.join();
        world
    }

    pub fn join(&mut self) -> Beat {
        self.store.join(&node(&self.serves), self.now).unwrap()
    }

    /// Ends the process, and joins as the next one, which serves these types.
    pub fn restart(self, serves: Arc<Filter>) -> Option<(Self, Beat)> {
        let store = self.subject.restart(self.store)?;
        let mut world = World { subject: self.subject, store, now: self.now, serves };
        let beat = world.join();
        Some((world, beat))
    }

    pub fn set(&mut self, offset: i64) {
        self.now = at(offset);
        self.subject.set_now(self.now);
    }

    pub fn try_apply(&mut self, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
        let outcomes = self.store.apply(ops, self.now).unwrap();
        assert_eq!(outcomes.len(), ops.len());
        outcomes
    }

    pub fn apply(&mut self, op: Op) -> Outcome {
        self.try_apply(&[op]).pop().unwrap().unwrap()
    }

    pub fn put(&mut self, record: &Record) {
        assert!(matches!(self.apply(put(record)), Outcome::Put(placed) if placed.len() == 1));
    }

    /// Claims a timer that can be claimed.
    pub fn claim(&mut self, id: DurableId) -> Arc<Record> {
        let outcome = self.apply(claim(&[id]));
        let Outcome::Claimed { mut records, .. } = outcome else { panic!("{outcome:?}") };
        records.pop().expect("it can be claimed")
    }

    pub fn delivery(&mut self, id: DurableId) -> Delivery {
        self.claim(id).delivery()
    }
}

/// Defines the tests of a store: `contract_tests!(memory, || EmbeddedStore::in_memory().unwrap())`. The expression is a
/// [`Subject`]. Attributes before the name are those of each test.
#[macro_export]
macro_rules! contract_tests {
    ($(#[$attribute:meta])* $name:ident, $subject:expr) => {
        mod $name {
            use super::*;
            $crate::contract_tests! {
                @tests [$(#[$attribute])*] $subject;
                named: every_column_comes_back
                named: a_group_of_new_timers_is_stored_wholly_or_not_at_all
                named: a_page_of_large_timers_is_short
                named: an_effect_is_made_with_its_end_or_neither_is
                named: a_look_counts_the_moved_timers_that_it_passes_over
                named: a_requeued_timer_ends_though_its_series_kept_a_key_of_another_route
                named: a_noted_end_leaves_a_row_of_the_past
                named: the_past_is_discarded_in_bounds
                random: agrees_with_the_model
                random: a_reader_agrees_with_its_store
            }
        }
    };
    (@tests $attributes:tt $subject:expr; $($module:ident: $test:ident)*) => {
        $($crate::contract_tests!(@test $attributes $module $test $subject);)*
    };
    (@test [$(#[$attribute:meta])*] $module:ident $test:ident $subject:expr) => {
        $(#[$attribute])*
        #[test]
        fn $test() {
            $crate::store::$module::$test(&mut $subject);
        }
    };
}
