//! The handling of a large batch in parts, between which due messages are delivered and other actors run.
//!
//! Later requests must stay behind the batch, so the actor waits (`ctx.wait`) until all of it is handled. Meanwhile
//! actix polls nothing else of the actor, including the driver. So the driver's turn is taken between two parts.

use std::any::type_name;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll};
use std::vec::IntoIter;

use actix::dev::{MessageResponse, OneshotSender};
use actix::fut::ActorFuture;
use actix::{AsyncContext, Context};

use crate::api::answer::drop_parts;
use crate::api::batch::ScheduleBatch;
use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::once::Once;
use crate::service::schedule::admission::{ADMITTED_AT_ONCE, BatchEntry};
use crate::service::state::Service;

/// The reply to a batch, under construction.
pub struct BatchReply<M: TimerMessage> {
    pub(crate) service: Arc<Service>,
    pub(crate) entries: IntoIter<BatchEntry<M>>,
    pub(crate) answers: Answers<M>,
}

type Answers<M> = Vec<Result<TimerId, ScheduleError<M>>>;

impl<M: TimerMessage> BatchReply<M> {
    /// Handles one request budget of entries. Returns true if none is left.
    fn take_part(&mut self, is_awaited: bool) -> bool {
        let Self { service, entries, answers } = self;
        let mut left = service.settings.request_budget;
        while left > 0 && !entries.as_slice().is_empty() {
            let most = left.min(ADMITTED_AT_ONCE);
            service.schedule_batch(entries.by_ref().take(most).collect(), answers);
            left -= most;
        }
        if !is_awaited {
            self.lose_answers();
        }
        self.entries.as_slice().is_empty()
    }

    fn give_answer(&mut self, asker: Option<OneshotSender<Answers<M>>>) {
        let unheard = asker.and_then(|asker| asker.send(std::mem::take(&mut self.answers)).err());
        self.answers.extend(unheard.into_iter().flatten());
        self.lose_answers();
    }

    /// Makes dead letters of the rejected messages, about which nobody is told.
    fn lose_answers(&mut self) {
        for rejected in self.answers.drain(..).filter_map(Result::err) {
            self.service.lose_rejected::<Once<M>>(rejected, type_name::<M>(), false);
        }
    }
}

/// If the timer actor ends in the middle, the other entries are dropped one by one, like replies that nobody awaits.
impl<M: TimerMessage> Drop for BatchReply<M> {
    fn drop(&mut self) {
        drop_parts(&self.service, self.entries.by_ref());
        self.lose_answers();
    }
}

impl<M: TimerMessage> MessageResponse<TimerActor, ScheduleBatch<M>> for BatchReply<M> {
    fn handle(mut self, ctx: &mut Context<TimerActor>, asker: Option<OneshotSender<Answers<M>>>) {
        if self.take_part(asker.is_some()) {
            self.give_answer(asker);
        } else {
            ctx.wait(Rest { reply: self, asker, others_had_their_turn: false });
        }
    }
}

/// The parts of a batch after the first. The actor waits for them, and handles no other request meanwhile.
struct Rest<M: TimerMessage> {
    reply: BatchReply<M>,
    asker: Option<OneshotSender<Answers<M>>>,
    others_had_their_turn: bool,
}

/// No field is ever pinned.
impl<M> Unpin for Rest<M> where M: TimerMessage {}

impl<M: TimerMessage> ActorFuture<TimerActor> for Rest<M> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut TimerActor, _: &mut Context<TimerActor>, cx: &mut Polling<'_>) -> Poll<()> {
        let this = self.get_mut();
        // The first poll immediately follows the previous part.
        if std::mem::replace(&mut this.others_had_their_turn, true) {
            this.reply.service.take_turn_in_between();
            if this.reply.take_part(this.asker.is_some()) {
                this.reply.give_answer(this.asker.take());
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
