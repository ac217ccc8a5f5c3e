//! The reports of a service of the [shop](crate::shop) in all its lives, compared with the disk and with the final
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use actix_timers_durable::DurableMessage;
use actix_timers_durable::store::{Part, Reads};

use crate::shop::{CUSTOMERS, Fate, Order, SERIES, charged, fate, finishing, is_charged};
use crate::talking::Talking;
use crate::workshop::{all, assert_sound_once_made, open};

/// The maximum number of times that a service is stopped before it may finish.
const LIVES: u32 = 5;

/// The reports about orders in all lives so far.
#[derive(Default)]
pub(crate) struct Book {
    scheduled: BTreeSet<u64>,
    moved: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
    /// The last kept order of each customer.
    kept: BTreeMap<u64, u64>,
    /// The last repetition and attempt that reached the handler, of each order.
    handled: BTreeMap<u64, (u64, u32)>,
    /// Cancelled or handled, for certain or perhaps.
    may_be_gone: BTreeSet<u64>,
}

impl Book {
    /// Records reports. If they are not `certain`, the power may have been off already.
    pub(crate) fn read(&mut self, lines: &[String], is_certain: bool) {
        for line in lines {
            let mut words = line.split(' ');
            let what = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            match (what, &numbers[..]) {
                ("scheduled", [order]) if is_certain => _ = self.scheduled.insert(*order),
                ("moved", [order]) if is_certain => _ = self.moved.insert(*order),
                ("cancelled", [order]) if is_certain => _ = self.cancelled.insert(*order),
                ("kept", [customer, order]) if is_certain => _ = self.kept.insert(*customer, *order),
                ("cancelling", [order]) => _ = self.may_be_gone.insert(*order),
                ("handled", [order, repetition, attempt]) => {
                    self.handled(*order, (*repetition, *attempt as u32), is_certain);
                }
                ("scheduled" | "moved" | "cancelled" | "kept" | "rejected" | "left" | "finished" | "", _) => {}
                // A process may find its disk gone before it has begun.
                _ => assert!(!is_certain, "it said {line:?}"),
            }
        }
    }

    fn handled(&mut self, order: u64, number: (u64, u32), is_certain: bool) {
        assert!(!self.cancelled.contains(&order), "order {order} was cancelled, and handled");
        self.may_be_gone.insert(order);
        let last = self.handled.get(&order).copied().unwrap_or((1, 0));
        assert!(number > last, "order {order} came as {number:?} after {last:?}");
        let (repetition, attempt) = number;
        let is_next = repetition > last.0 || attempt <= last.1 + 1 + LIVES;
        assert!(is_next, "order {order} came as {number:?} after {last:?}");
        if is_certain {
            self.handled.insert(order, number);
        }
    }

    /// Asserts that the disk matches the reports.
    pub(crate) fn compare(&self, path: &Path) {
        assert_sound_once_made(path);
        charged(path);
        let mut store = open(path).unwrap();
        let counts = store.counts(None).unwrap();
        assert_eq!((counts.parked, counts.dead), (0, 0));
        let mut pending = BTreeSet::new();
        for found in all(&mut store, Part::Pending).unwrap() {
            let order = Order::decode(found.record.message_version, &found.record.payload).unwrap();
            assert!(order.is_whole());
            assert!(pending.insert(order.number), "order {} is there twice", order.number);
        }
        let missing: Vec<_> = self.scheduled.difference(&pending).filter(|it| !self.may_be_gone.contains(it)).collect();
        assert!(missing.is_empty(), "scheduled, and not there: {missing:?}");
        let back: Vec<_> = self.cancelled.intersection(&pending).collect();
        assert!(back.is_empty(), "cancelled, and there: {back:?}");
        for (customer, last) in &self.kept {
            let of_customer = |order: &&u64| **order % CUSTOMERS == *customer && fate(**order) == Fate::Kept;
            let kept: Vec<_> = pending.iter().filter(of_customer).collect();
            assert!(
                kept.len() == 1 && kept[0] >= last,
                "{last} was kept for customer {customer}, and {kept:?} are there"
            );
        }
    }

    /// Lets a service handle the remaining orders, and asserts that every order that had to be handled was handled, and
    /// charged, in the end.
    pub(crate) fn close(&mut self, path: &Path) {
        let last = Talking::start(finishing(path)).rest();
        assert_eq!(last.iter().rfind(|line| !line.is_empty()).map(String::as_str), Some("finished"), "{last:?}");
        self.read(&last, true);
        let (charged, soon) = (charged(path), |order: &&u64| fate(**order) == Fate::Handled && is_charged(**order));
        let missing: Vec<_> = self.scheduled.iter().filter(soon).filter(|order| !charged.contains(order)).collect();
        assert!(missing.is_empty(), "handled without a charge: {missing:?}");
        let left: BTreeSet<u64> = last.iter().filter_map(|line| line.strip_prefix("left ")?.parse().ok()).collect();
        for order in &self.scheduled {
            // The process was stopped before it moved or cancelled this order.
            let is_unchanged = matches!(fate(*order), Fate::Moved | Fate::Cancelled) && !self.moved.contains(order);
            let is_left = left.contains(order) && is_unchanged;
            let has_gone = self.cancelled.contains(order) || self.may_be_gone.contains(order);
            assert!(has_gone || is_left, "order {order}, which is to be {:?}, was lost", fate(*order));
        }
        for order in left {
            let was_late = matches!(fate(order), Fate::Moved | Fate::Cancelled | Fate::Kept) && order != SERIES;
            let is_late = was_late && !self.moved.contains(&order) && !self.cancelled.contains(&order);
            assert!(is_late, "order {order}, which is to be {:?}, was left", fate(order));
        }
    }
}
