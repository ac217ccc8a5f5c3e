//! The participants of a workload with deliveries: schedulers, receivers, and their shared book.

use std::time::{Duration, Instant};

use actix::{Actor, Addr, Arbiter};
use tokio::sync::oneshot;

use crate::senders::book::{Book, Delivered};
use crate::senders::messages::{Planner, Receiver};

pub(crate) struct Stage {
    /// The scheduling actors of this arbiter. One that schedules for itself is a receiver, too.
    pub(crate) planners: Vec<Planner>,
    pub(crate) receivers: Vec<Addr<Receiver>>,
    delivered: oneshot::Receiver<Delivered>,
    /// Keeps the other arbiter alive.
    _arbiter: Option<Arbiter>,
}

impl Stage {
    /// Returns a stage where `actors` of this arbiter get `messages` in all.
    pub(crate) fn here(messages: usize, actors: usize) -> Self {
        let (complete, delivered) = oneshot::channel();
        let book = Book::new(messages, complete);
        let planners: Vec<Planner> = (0..actors).map(|_| Planner::start(Some(&book))).collect();
        let receivers = planners.iter().map(|planner| planner.addr.clone()).collect();
        Self { planners, receivers, delivered, _arbiter: None }
    }

    /// Returns a stage where an actor of another arbiter gets `messages`.
    pub(crate) fn elsewhere(messages: usize) -> Self {
        let (complete, delivered) = oneshot::channel();
        let arbiter = Arbiter::new();
        let receiver =
            Receiver::start_in_arbiter(&arbiter.handle(), move |_| Receiver::new(Some(&Book::new(messages, complete))));
        Self { planners: vec![Planner::start(None)], receivers: vec![receiver], delivered, _arbiter: Some(arbiter) }
    }

    /// Waits until all ready tasks and contexts of this arbiter have been polled.
    pub(crate) async fn all_polled(&self) {
        for planner in &self.planners {
            planner.run(|_| ()).await;
        }
        // Tasks take turns, so a new one comes after all ready ones.
        actix::spawn(async {}).await.expect("a task");
    }

    /// Waits for the last message, due at `until` at the latest.
    pub(crate) async fn delivered(&mut self, until: Instant) -> Delivered {
        let patience = until.saturating_duration_since(Instant::now()) + Duration::from_secs(120);
        let delivered = tokio::time::timeout(patience, &mut self.delivered).await;
        delivered.expect("messages were lost").expect("the receivers live")
    }
}

/// Returns the time from the beginning of the scheduling to the first deadline, enough for every subject.
pub(crate) fn lead(messages: usize) -> Duration {
    Duration::from_millis(500) + Duration::from_micros(5) * messages as u32
}
