//! Rejected timers of calls that cannot fail: their messages become dead letters.

use crate::engine::DeadLetterReason;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::schedule::plan::Plan;
use crate::service::state::Service;
use crate::trace;

impl Service {
    /// Makes the message of a rejected timer a dead letter, and returns an id that no timer has. A message bound to its
    /// thread is dropped here.
    #[cold]
    #[inline(never)]
    pub(crate) fn lose_rejected<P, M>(
        &self,
        rejected: ScheduleError<P::Packed>,
        message_type: &'static str,
        is_thread_bound: bool,
    ) -> TimerId
    where
        P: Plan<M>,
        M: TimerMessage,
    {
        let (id, reason) = (TimerId::new(), DeadLetterReason::Rejected);
        let (error, packed) = rejected.split();
        if self.settings.internal {
            self.drop_contained(packed);
            return id;
        }
        let (mut message, mut rest) = (None, None);
        if self.has_subscribers() && !self.is_stopped() && !is_thread_bound {
            message = P::into_message(P::unpack(self, packed)).map(|message| Box::new(message) as _);
        } else {
            rest = Some(packed);
        }
        let text = self.has_subscribers().then(|| error.to_string().into());
        let letter = DeadLetterEvent { id, deadline: None, reason, message_type, message, error: text };
        let mut state = self.state();
        state.engine.lose_rejected();
        state.reports.published.ask_to_publish();
        let wanted = self.has_subscribers() && !self.is_stopped();
        let mut refused = if wanted { state.reports.rejected.add(letter) } else { Some(letter) };
        drop(state);
        if let (false, Some(letter)) = (wanted, &mut refused) {
            self.report_unsent(&error, letter);
        }
        self.notify(Wakeup { poke: true, ..Wakeup::default() });
        self.drop_contained((refused, rest));
        id
    }

    /// Reports a rejection of which no subscriber gets a letter: a warning, printed if nobody reads warnings.
    fn report_unsent(&self, error: &ScheduleError<()>, letter: &mut DeadLetterEvent) {
        // The subscriber of `tracing` and the clock may be user code.
        self.contain(|| {
            if trace::reads_dead_letters() {
                letter.error.get_or_insert_with(|| error.to_string().into());
                self.report_dead_letter(self.clock.now(), letter);
            } else {
                trace::print_lost(letter.message_type, error);
            }
        });
    }
}
