//! Rejected timers of calls that cannot fail: their messages become dead letters.

use crate::engine::DeadLetterReason;
use crate::model::dead_letter::DeadLetterEvent;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::service::deliver::job::Content;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::state::Service;
use crate::trace;

/// Letters that are kept until they are sent. Further ones are counted, and their messages dropped.
const KEPT: usize = 1024;

impl Service {
    /// Makes the message of a rejected timer a dead letter, and returns an id that no timer has. A message bound to its
    /// thread is dropped here.
    #[cold]
    #[inline(never)]
    pub(crate) fn lose_rejected<C: Content>(
        &self,
        rejected: ScheduleError<C::Messages>,
        message_type: &'static str,
        is_thread_bound: bool,
    ) -> TimerId {
        let (id, mut messages) = (TimerId::new(), None);
        let reason = rejected.map(|content| messages = Some(content));
        // The timer of a repeated request is there: nothing is lost.
        if self.settings.internal || matches!(reason, ScheduleError::DuplicateId { .. }) {
            self.drop_contained(messages);
            return id;
        }
        let mut message = None;
        if self.has_subscribers() && !self.is_stopped() && !is_thread_bound {
            message = messages.take().and_then(C::into_message).map(|message| Box::new(message) as _);
        }
        let letter = DeadLetterEvent {
            id,
            deadline: None,
            reason: DeadLetterReason::Rejected,
            message_type,
            message,
            error: Some(reason.to_string().into()),
        };
        let mut state = self.state();
        state.engine.lose_rejected();
        let wanted = self.has_subscribers() && !self.is_stopped();
        let poke = state.reports.published.ask_to_publish() || wanted && state.reports.rejected.is_empty();
        let refused = if wanted && state.reports.rejected.len() < KEPT {
            state.reports.rejected.push(letter);
            None
        } else {
            Some(letter)
        };
        drop(state);
        if let (false, Some(letter)) = (wanted, &refused) {
            self.report_unsent(&reason, letter);
        }
        self.notify(Wakeup { poke, ..Wakeup::default() });
        if self.is_stopped() {
            self.contain(|| self.publish_after_stop());
        }
        self.drop_contained((refused, messages));
        id
    }

    /// Reports a rejection of which no subscriber gets a letter: a warning, printed if nobody reads warnings.
    fn report_unsent(&self, error: &ScheduleError<()>, letter: &DeadLetterEvent) {
        // The subscriber of `tracing` and the clock may be user code.
        self.contain(|| {
            if trace::reads_dead_letters() {
                self.report_dead_letter(self.clock.now(), letter);
            } else {
                trace::print_lost(letter.message_type, error);
            }
        });
    }
}
