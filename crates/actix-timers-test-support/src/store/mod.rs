//! The contract of [`Store`]: the required behaviour of every implementation.
//!
//! `named` has a check for each promise, `random` compares thousands of random changes with the naive store in `model`.
//! [`contract_tests!`](crate::contract_tests) defines all of them as tests of one store.

pub mod model;
pub mod named;
pub mod random;

use std::sync::Arc;

use actix_timers_durable::store::OnKey;
use actix_timers_durable::store::{
    Claim, Delivery, Filter, Look, NewTimer, NodeInfo, Op, Outcome, Placed, Position, Progress, Record, Served, Store,
    Suspects,
};
use actix_timers_durable::{DueTime, DurableId, StoreError};

/// The stores under test.
pub trait Subject {
    type Store: Store;

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
    Op::Claim(Claim { ids: ids.to_vec(), filter: serving(&["a", "b"]), suspects })
}

/// A store at a time.
pub struct World<'a, S: Subject> {
    pub subject: &'a mut S,
    pub store: S::Store,
    pub now: DueTime,
}

impl<'a, S: Subject> World<'a, S> {
    pub fn new(subject: &'a mut S) -> Self {
        let now = at(0);
        subject.set_now(now);
        let store = subject.create();
        let mut world = Self { subject, store, now };
        world.join();
        world
    }

    pub fn join(&mut self) -> actix_timers_durable::store::Beat {
        let node = NodeInfo { name: "test".into(), serves: (*serving(&["a", "b"])).clone() };
        self.store.join(&node, self.now).unwrap()
    }

    /// Ends the process, and joins as the next one.
    pub fn restart(self) -> Option<(Self, actix_timers_durable::store::Beat)> {
        let store = self.subject.restart(self.store)?;
        let mut world = World { subject: self.subject, store, now: self.now };
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

    pub fn put(&mut self, record: &Record) -> Placed {
        self.put_as(record, OnKey::KeepExisting)
    }

    pub fn put_as(&mut self, record: &Record, on_key: OnKey) -> Placed {
        let Outcome::Put(placed) = self.apply(Op::Put(vec![new(record, on_key)])) else { panic!("not a put") };
        assert_eq!(placed.len(), 1);
        placed[0]
    }

    /// Claims a timer that can be claimed.
    pub fn claim(&mut self, id: DurableId) -> Arc<Record> {
        self.claim_as(id, Suspects::Left)
    }

    pub fn claim_as(&mut self, id: DurableId, suspects: Suspects) -> Arc<Record> {
        let outcome = self.apply(claim_as(&[id], suspects));
        let Outcome::Claimed { mut records, .. } = outcome else { panic!("{outcome:?}") };
        records.pop().expect("it can be claimed")
    }

    pub fn delivery(&mut self, id: DurableId) -> Delivery {
        self.claim(id).delivery()
    }

    /// Returns the ids that a look finds.
    pub fn look(&mut self, after: Option<Position>, until: i64, limit: usize) -> Vec<DurableId> {
        let look = Look { after, until: at(until), filter: serving(&["a", "b"]), limit };
        self.store.look(&look, self.now).unwrap().into_iter().map(|hint| hint.id).collect()
    }
}

/// Returns the outcome of a claim that finds nothing.
pub fn nothing_claimed() -> Outcome {
    Outcome::Claimed { records: vec![], not_due: vec![], damaged: vec![], left: vec![] }
}

/// Defines the tests of a store: `contract_tests!(memory, || EmbeddedStore::in_memory().unwrap())`. The expression is a
/// [`Subject`]. Attributes before the name are those of each test.
#[macro_export]
macro_rules! contract_tests {
    ($(#[$attribute:meta])* $name:ident, $subject:expr) => {
        $crate::contract_tests!($(#[$attribute])* $name, $subject, [
            named: a_timer_is_claimed_when_it_is_due_and_ends,
            named: every_column_comes_back,
            named: rows_of_another_store_are_restored_as_they_were_found,
            named: overdue_timers_are_due_now,
            named: a_repeated_put_is_found,
            named: a_group_of_new_timers_is_stored_wholly_or_not_at_all,
            named: one_refused_change_harms_no_other,
            named: keys_are_those_of_a_route,
            named: a_replaced_timer_is_gone_and_its_end_finds_nothing,
            named: a_noted_end_leaves_a_row_of_the_past,
            named: the_past_is_that_of_the_row_that_ends,
            named: each_repetition_and_each_dead_letter_is_in_the_past,
            named: a_requeued_timer_has_the_past_of_all_its_attempts,
            named: the_past_is_listed_in_pages_and_discarded_in_bounds,
            named: a_key_is_kept_until_its_time_is_over,
            named: a_kept_key_is_replaced_as_if_it_were_free,
            named: a_kept_key_of_a_series_is_that_of_its_letter,
            named: a_claim_takes_only_served_types,
            named: an_end_needs_the_delivery_that_was_claimed,
            named: an_effect_is_made_with_its_end_or_neither_is,
            named: retries_and_repetitions_keep_count,
            named: given_back_and_released_timers_are_pending,
            named: a_snoozed_timer_is_due_at_its_wish_and_keeps_its_budget,
            named: suspects_are_claimed_as_such_only,
            named: a_timer_without_an_end_is_a_suspect_after_ten_crashes,
            named: cancel_and_move_say_what_they_found,
            named: dead_letters_are_kept_and_return,
            named: old_dead_letters_are_discarded_in_bounds,
            named: a_series_leaves_its_latest_letter,
            named: parked_timers_wait_for_a_node_that_serves_them,
            named: a_paused_route_waits_until_it_is_resumed,
            named: a_pause_ends_by_itself_and_outlives_its_process,
            named: a_paused_timer_stays_parked_until_it_is_resumed,
            named: a_timer_that_is_paused_in_its_delivery_ends_it,
            named: looks_are_in_order_and_pages_miss_nothing,
            named: lists_filter_and_continue,
            named: lists_filter_by_bytes_of_keys_and_by_headers,
            named: lists_leave_out_rows_written_later,
            named: counts_stop_at_their_limit,
            named: claims_of_an_ended_process_are_released,
            random: agrees_with_the_model,
            random: a_reader_agrees_with_its_store,
        ]);
    };
    ($(#[$attribute:meta])* $name:ident, $subject:expr, [$($module:ident: $test:ident),* $(,)?]) => {
        $crate::contract_tests!(@tests [$(#[$attribute])*] $name, $subject, [$($module: $test),*]);
    };
    (@tests $attributes:tt $name:ident, $subject:expr, [$($module:ident: $test:ident),*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $($crate::contract_tests!(@test $attributes $module $test $subject);)*
        }
    };
    (@test [$(#[$attribute:meta])*] $module:ident $test:ident $subject:expr) => {
        $(#[$attribute])*
        #[test]
        fn $test() {
            $crate::store::$module::$test(&mut $subject);
        }
    };
}
