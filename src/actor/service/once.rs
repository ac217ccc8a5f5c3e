//! The message of a timer that does not repeat, as it is stored.

use super::Core;
use super::Service;
use super::admission::News;
use super::carried::Carried;
use super::job::{Committed, Deferred, Destination, Job, Ticket, Via};
use super::lanes::{Contents, Payload, Unloaded};
use crate::actor::target::Target;
use crate::engine::{Ending, Handover, Now};

/// A message and its destination.
pub(super) struct Once<C, D> {
    pub(super) to: D,
    pub(super) message: C,
}

/// When a stored message was produced: nobody asks.
const AT_ONCE: Now = Now { time: std::time::Duration::ZERO, wall: None };

impl<C, D> Job for Once<C, D>
where
    C: Carried,
    D: Destination<C::Message>,
{
    type Carried = C;
    type To = D;
    type Taken = Self;
    /// With an ending if it is not to be delivered.
    type Produced = (Self, Option<Ending>);
    type Producer = ();
    type Rest = D;

    const PRODUCES: bool = false;

    fn to(&self) -> &D {
        &self.to
    }

    fn unload(self) -> Option<Unloaded> {
        Some(Unloaded::new(Contents::Message(self.message.into_any()), Some(Box::new(self.to))))
    }

    #[inline(always)]
    fn take(core: &mut Core, due: Handover<Payload>) -> Option<Self> {
        core.lanes.take(due.payload)
    }

    #[inline(always)]
    fn target_of(taken: &Self) -> Option<&Target<C::Message>> {
        taken.to.target()
    }

    #[inline(always)]
    fn produce(taken: Self, _: &Service, _: Via) -> Self::Produced {
        (taken, None)
    }

    #[inline(always)]
    fn give_up(taken: Self, ending: Ending) -> Self::Produced {
        (taken, Some(ending))
    }

    #[inline(always)]
    fn is_ready((_, ending): &Self::Produced) -> Option<Now> {
        ending.is_none().then_some(AT_ONCE)
    }

    #[inline(always)]
    fn commit(
        (Self { to, message }, ending): Self::Produced,
        core: &mut Core,
        ticket: Ticket,
        via: Via,
        _: &mut News,
    ) -> Committed<Self> {
        // Taken out of its inbox, an own message counts as delivered already.
        if via != Via::Handler {
            core.engine.finish(ticket.due.key, ending.unwrap_or(Ending::Delivered));
        }
        let mut deferred = Deferred { rest: Some(to), ..Deferred::NONE };
        let Some(ending) = ending else { return Committed { message: Some(message), resume: None, deferred } };
        match ending {
            Ending::DeadLettered(reason) => deferred.lose(ticket, reason, Some(message)),
            _ => deferred.message = Some(message),
        }
        Committed { message: None, resume: None, deferred }
    }

    #[inline(always)]
    fn send_off((Self { to, message }, _): Self::Produced, _: &mut Core, _: Ticket) -> (Option<C>, Deferred<Self>) {
        (Some(message), Deferred { rest: Some(to), ..Deferred::NONE })
    }

    fn take_rest(_: &mut Core, _: Payload) -> Option<D> {
        None
    }
}
