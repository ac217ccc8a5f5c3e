//! Reports of a service: their part of the state, and those to a subscriber of `tracing`; see `trace`.

use std::time::Duration;

use crate::engine::{DueTimer, OwnerId};
use crate::metrics::gate::{self, Pass};
use crate::metrics::{Published, WakeupCause};
use crate::model::dead_letter::DeadLetterEvent;
use crate::model::id::TimerId;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::state::{Service, State};
use crate::timing::Key;
use crate::trace::{self, Delivering, StuckRecipient, Warning};

/// The reports of a service that are due at the end of a turn.
#[derive(Default)]
pub(crate) struct Reports {
    /// The publication of metrics.
    pub(crate) published: Published,
    /// Letters about rejected timers, which the driver sends at the next publication. Were they sent by the calls that lost
    /// the messages, a subscriber that schedules again would fill its own mailbox, which actix empties before anything else.
    pub(crate) rejected: Vec<DeadLetterEvent>,
}

impl Reports {
    /// Begins a publication, if one is due: returns the pass for it and the letters to send with it, or the time of the next one.
    #[inline(always)]
    pub(crate) fn begin_publication(
        &mut self,
        now: Duration,
    ) -> (Option<Pass>, Vec<DeadLetterEvent>, Option<Duration>) {
        if let Err(later) = self.published.is_due(now) {
            return (None, Vec::new(), later);
        }
        let pass = gate::try_enter();
        // A scrape that is running has published itself.
        let later = if pass.is_none() { self.published.put_off(now) } else { None };
        (pass, std::mem::take(&mut self.rejected), later)
    }
}

impl Service {
    /// Reports a timer that was admitted.
    #[inline(always)]
    pub(crate) fn begin_span(&self, key: Key, id: TimerId, delay: Duration) {
        if !self.settings.internal {
            self.timer_spans.begin(&self.name, key, id, delay, || self.message_type(key), || self.is_pending(key));
        }
    }

    /// Records the lateness of a message that is handed over now, or at an earlier reading of the clock, and enters the
    /// span of its delivery. Clock and recorder of metrics are foreign code: if one panics, the message still goes.
    #[inline(always)]
    pub(crate) fn begin_delivery(&self, due: DueTimer<MessageRef>, now: Option<Duration>) -> Option<Delivering> {
        self.contain(|| {
            let lag = now.unwrap_or_else(|| self.clock.now()).saturating_sub(self.tick.time_of(due.deadline));
            self.meters.delivery_lag.record(lag.as_secs_f64());
            self.timer_spans.hand_over(due.key, lag, || self.is_pending(due.key))
        })
    }

    /// Whether a timer is pending. If so, its end will be reported.
    fn is_pending(&self, key: Key) -> bool {
        self.state().engine.report_end(key)
    }

    /// Returns the type of a pending timer's message.
    fn message_type(&self, key: Key) -> Option<&'static str> {
        let state = self.state();
        Some(state.message_type(Some(state.engine.payload(key)?)))
    }

    /// Notes the lateness of the next timer at the start of a turn.
    #[inline(always)]
    pub(crate) fn note_lateness(&self, state: &mut State, now: Duration, cause: WakeupCause) {
        let State { engine, driver, .. } = state;
        let due = || engine.wheel().next_expiration().map(|tick| self.tick.time_of(tick));
        // Buckets handled by the watchdog are no longer overdue, but their driver is still absent.
        let missing =
            || driver.missing_since.or_else(|| Some(due()?.max(driver.last_turn)).filter(|since| *since <= now));
        let since = if cause.is_driver() { None } else { missing() };
        driver.missing_since = since;
        self.warnings.note_lateness(now, || since.or_else(due), !cause.is_driver());
    }

    /// Records a warning about a recipient that does not take its messages.
    pub(crate) fn note_stuck(&self, state: &mut State, owner: OwnerId, waited: Duration) {
        if !trace::IS_ON {
            return;
        }
        let waiting = state.engine.inbox_len(owner);
        let (id, payload, behind) = match state.lanes.last_posted(owner) {
            Some(posted) => (posted.id, Some(posted.due.payload), waiting),
            None => {
                let Some(key) = state.engine.first_due(owner) else { return };
                (self.id_of(state, key), state.engine.payload(key), waiting.saturating_sub(1))
            }
        };
        let message_type = state.message_type(payload);
        self.warnings.note_stuck(StuckRecipient { id, message_type, waited, behind });
    }

    /// Takes the warnings to emit after unlocking.
    #[inline(always)]
    pub(crate) fn take_warnings(&self, state: &State, now: Duration) -> Vec<Warning> {
        self.warnings.take(now, || state.engine.counters(), self.settings.engine.capacity)
    }

    /// Emits warnings. Not to be called under the lock.
    #[inline(always)]
    pub(crate) fn warn(&self, warnings: Vec<Warning>) {
        warnings.iter().for_each(|warning| _ = self.contain(|| trace::tell(&self.name, warning)));
    }

    /// Reports a lost message. Not to be called under the lock.
    pub(crate) fn report_dead_letter(&self, now: Duration, lost: &DeadLetterEvent) {
        let DeadLetterEvent { id, reason, message_type, ref error, .. } = *lost;
        trace::dead_letter(&self.name, id, reason, message_type);
        self.warnings.warn_of_dead_letter(&self.name, now, id, reason, message_type, error.as_deref());
    }
}
