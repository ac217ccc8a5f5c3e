//! Waiting in virtual time until all due messages have been handled.
//!
//! A timer actor knows its remaining work, and [`Idleness`] whether a task of this thread is ready. Both are asked in
//! turn until nothing changes: after the tasks of this thread have run, no timer actor has work left.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::idle::{Idleness, TURNS};
use crate::model::clock::Clock;
use crate::model::manual_clock::ManualClock;
use crate::service::query::activity::Activity;
use crate::service::query::directory;
use crate::service::state::Service;

/// The time after which work on another thread, or an actor that is kept from its work, counts as stuck.
const PATIENCE: Duration = Duration::from_secs(1);

std::thread_local! {
    static GIVEN_UP: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often virtual time has run into its patience on this thread: work seemed to be left, and nothing
/// happened.
pub fn given_up_settling() -> u64 {
    GIVEN_UP.get()
}

/// Whether it is time to give up; counts that.
fn gives_up(since: Instant) -> bool {
    let gives_up = since.elapsed() >= PATIENCE;
    GIVEN_UP.set(GIVEN_UP.get() + u64::from(gives_up));
    gives_up
}

/// Waits for the selected timer actors and for the tasks of this thread.
pub(crate) struct Settling<C> {
    concerned: C,
    idleness: Idleness,
    /// The activities of these timer actors when they were last read.
    last: Vec<Activity>,
}

impl<C: Fn(&Service) -> bool> Settling<C> {
    pub(crate) fn new(concerned: C) -> Self {
        Self { concerned, idleness: Idleness::new(), last: Vec::new() }
    }

    /// Returns when the selected timer actors have no work at this time, and no task of this thread is ready.
    pub(crate) async fn settle(&mut self) {
        let (mut unchanged, mut since) = (0, Instant::now());
        loop {
            let is_idle = self.idleness.wait().await;
            let now = self.activities();
            let before = std::mem::replace(&mut self.last, now);
            let (now, same_length) = (&self.last, self.last.len() == before.len());
            if is_idle && same_length && now.iter().zip(&before).all(|(now, before)| now.is_over(before)) {
                return;
            }
            if *now != before {
                (unchanged, since) = (0, Instant::now());
                continue;
            }
            unchanged += if is_idle { 1 } else { TURNS };
            if gives_up(since) {
                return;
            }
            if now.iter().all(|activity| activity.may_last(unchanged >= TURNS)) {
                if !now.iter().any(Activity::is_elsewhere) || self.is_confirmed(since).await {
                    return;
                }
                unchanged = 0;
            }
        }
    }

    /// Whether the timer actors on other threads take a turn and nothing changes: a handler that had begun on their
    /// arbiters has returned since, and left no work.
    async fn is_confirmed(&mut self, since: Instant) -> bool {
        for service in self.services().filter(|service| !service.is_here()) {
            service.turns.wake_driver();
        }
        loop {
            self.idleness.wait().await;
            let now = self.activities();
            if now.len() != self.last.len() {
                return false;
            }
            let mut both = now.iter().zip(&self.last);
            if both.all(|(now, last)| now.has_had_turn_since(last)) || gives_up(since) {
                break;
            }
        }
        // Their messages to actors of this thread.
        self.idleness.wait().await;
        let now = self.activities();
        let last = std::mem::replace(&mut self.last, now);
        self.last.len() == last.len() && self.last.iter().zip(&last).all(|(now, last)| now.is_but_for_wakeups(last))
    }

    fn services(&self) -> impl Iterator<Item = Arc<Service>> {
        directory::running().into_iter().filter(|service| (self.concerned)(service))
    }

    fn activities(&self) -> Vec<Activity> {
        self.services().map(|service| service.activity()).collect()
    }
}

impl ManualClock {
    /// Advances both clocks by `by`, from one event to the next: each message that falls due meanwhile is handled while
    /// the clock shows its time, including its consequences. Returns when all due messages have been handled, and no
    /// task of this thread is ready.
    ///
    /// Await it on the thread of the actors under test, in the test's own future: in a spawned task it is slower, and
    /// follows chains of up to 64 steps. It also waits for timer actors on other threads that run on this clock, and
    /// for the handlers of own timers there, but not for the mailboxes of other actors there: send such an actor a
    /// request, and its reply implies that all earlier messages were handled. It does not wait for a future that itself
    /// waits for a later time. Messages that an actor cannot handle now, because it waits for a future (`ctx.wait`),
    /// stay due. The [guide](crate::guide::testing#definition-of-handled) has the details.
    pub async fn advance(&self, by: Duration) {
        let end = self.now().saturating_add(by);
        let mut settling = self.settling();
        loop {
            settling.settle().await;
            let now = self.now();
            match self.next_alarm().filter(|next| *next < end) {
                // A past alarm that nobody polls must not stop time.
                Some(next) if next > now => self.jump(next - now),
                _ if now < end => self.jump(end - now),
                _ => return,
            }
        }
    }

    /// Returns when all due messages have been handled, as [`advance`](Self::advance) does, but without advancing time.
    pub async fn settle(&self) {
        self.settling().settle().await;
    }

    fn settling(&self) -> Settling<impl Fn(&Service) -> bool> {
        Settling::new(|service: &Service| service.clock.is_moved_by(self))
    }
}
