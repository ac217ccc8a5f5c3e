//! Subscriptions to dead letters.

use actix::{Context, Handler, Message, Recipient};

use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::dead_letter::DeadLetter;

/// Asks a timer actor to send its dead letters to a recipient, which is held weakly; see [`DeadLetter`]. The same as
/// [`Timers::subscribe_dead_letters`].
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct SubscribeDeadLetters(pub Recipient<DeadLetter>);

impl Handler<SubscribeDeadLetters> for TimerActor {
    type Result = ();

    fn handle(&mut self, SubscribeDeadLetters(recipient): SubscribeDeadLetters, ctx: &mut Context<Self>) {
        self.take_in(1, ctx);
        self.service().subscribe(&recipient);
        // It may be the last address of its actor.
        self.service().contain(|| drop(recipient));
    }
}

impl Timers {
    /// Sends a [`DeadLetter`] to `recipient` for every timer of this timer actor whose message cannot be handed over, from
    /// now on. Any number of actors may subscribe, each once. They are held weakly, and forgotten once they have stopped.
    ///
    /// Letters are put into the mailbox past its capacity, as `do_send` does. One that cannot be handed to any subscriber is
    /// dropped, and so is one about a message that is a `DeadLetter` itself: no letters are written about letters.
    pub fn subscribe_dead_letters(&self, recipient: impl Into<Recipient<DeadLetter>>) {
        self.service().subscribe(&recipient.into());
    }
}
