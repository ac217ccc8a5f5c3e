//! Subscriptions to dead letters.

use actix::{Context, Handler, Message, Recipient};

use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::dead_letter::DeadLetter;

/// A request to send the dead letters of a timer actor to a recipient, which is held weakly; see [`DeadLetter`]. The
/// same as [`Timers::subscribe_dead_letters`].
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct SubscribeDeadLetters(pub Recipient<DeadLetter>);

impl Handler<SubscribeDeadLetters> for TimerActor {
    type Result = ();

    fn handle(&mut self, SubscribeDeadLetters(recipient): SubscribeDeadLetters, ctx: &mut Context<Self>) {
        self.count_requests(1, ctx);
        self.service().subscribe(&recipient);
        // It may be the last address of its actor.
        self.service().drop_contained(recipient);
    }
}

impl Timers {
    /// Sends a [`DeadLetter`] to `recipient` for every timer of this timer actor whose message cannot be delivered,
    /// from now on. Any number of actors may subscribe, each once. They are held weakly, and removed once they have
    /// stopped.
    ///
    /// Letters are put into the mailbox past its capacity, as by `do_send`. A letter that no subscriber accepts is
    /// dropped, and so is one about a message that is itself a `DeadLetter`: there are no letters about letters.
    pub fn subscribe_dead_letters(&self, recipient: impl Into<Recipient<DeadLetter>>) {
        self.service().subscribe(&recipient.into());
    }
}
