//! Who takes part in a workload with deliveries: those who schedule, those who receive, and the book they share.

use std::time::{Duration, Instant};

use actix::{Actor, Addr, Arbiter};
use tokio::sync::oneshot;

use crate::senders::book::{Book, Delivered};
use crate::senders::messages::{Planner, Receiver};

pub(crate) struct Stage {
    /// Those of this arbiter that schedule. Who schedules for itself receives, too.
    pub(crate) planners: Vec<Planner>,
    pub(crate) receivers: Vec<Addr<Receiver>>,
    delivered: oneshot::Receiver<Delivered>,
    /// Keeps the other arbiter alive.
    _arbiter: Option<Arbiter>,
}

impl Stage {
    /// So many actors of this arbiter get `messages` in all.
    pub(crate) fn here(messages: usize, actors: usize) -> Self {
        let (complete, delivered) = oneshot::channel();
        let book = Book::new(messages, complete);
        let planners: Vec<Planner> = (0..actors).map(|_| Planner::start(Some(&book))).collect();
        let receivers = planners.iter().map(|planner| planner.addr.clone()).collect();
        Self { planners, receivers, delivered, _arbiter: None }
    }

    /// An actor of another arbiter gets `messages`.
    pub(crate) fn elsewhere(messages: usize) -> Self {
        let (complete, delivered) = oneshot::channel();
        let arbiter = Arbiter::new();
        let receiver =
            Receiver::start_in_arbiter(&arbiter.handle(), move |_| Receiver::new(Some(&Book::new(messages, complete))));
        Self { planners: vec![Planner::start(None)], receivers: vec![receiver], delivered, _arbiter: Some(arbiter) }
    }

    /// Returns when all tasks and contexts of this arbiter that were ready have been polled.
    pub(crate) async fn all_polled(&self) {
        for planner in &self.planners {
            planner.run(|_| ()).await;
        }
        // Tasks take turns, so one that is new comes after all that are ready.
        actix::spawn(async {}).await.expect("a task");
    }

    /// Waits for the last message. `until` is when it is due at the latest.
    pub(crate) async fn delivered(&mut self, until: Instant) -> Delivered {
        let patience = until.saturating_duration_since(Instant::now()) + Duration::from_secs(120);
        let delivered = tokio::time::timeout(patience, &mut self.delivered).await;
        delivered.expect("messages were lost").expect("the receivers live")
    }
}

/// From the beginning of the scheduling until the first of so many messages is due: time enough for everybody.
pub(crate) fn lead(messages: usize) -> Duration {
    Duration::from_millis(500) + Duration::from_micros(5) * messages as u32
}
