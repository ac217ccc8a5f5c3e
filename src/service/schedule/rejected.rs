//! Rejected timers of calls that cannot fail: their messages become dead letters.

use crate::engine::DeadLetterReason;
use crate::model::carried::Carried;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::schedule::plan::Plan;
use crate::service::state::Service;

impl Service {
    /// Makes the message of a rejected timer a dead letter, and returns an id that no timer has.
    #[cold]
    #[inline(never)]
    pub(crate) fn lose_rejected<P, C>(
        &self,
        rejected: ScheduleError<P::Packed<C>>,
        message_type: &'static str,
    ) -> TimerId
    where
        P: Plan<C::Message>,
        C: Carried,
    {
        let (id, reason) = (TimerId::new(), DeadLetterReason::Rejected);
        let packed = rejected.into_message();
        if self.settings.internal {
            self.drop_contained(packed);
            return id;
        }
        let mut state = self.state();
        state.engine.lose_rejected();
        let wakeup = Wakeup { poke: state.reports.published.ask_to_publish(), ..Wakeup::default() };
        drop(state);
        self.notify(wakeup);
        if !self.has_subscribers() {
            self.drop_contained(packed);
            return id;
        }
        let message = self.contain(|| Box::new(P::first_message(P::unpack::<C>(packed))) as _);
        self.emit_dead_letter(DeadLetterEvent { id, deadline: None, reason, message_type, message });
        id
    }
}
