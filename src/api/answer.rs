//! Replies to requests that contain a user's messages.

use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Context, Message};

use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::service::state::Service;

/// A reply that may contain a user's message or message source. A reply that nobody awaits is dropped here: a panic of
/// the message's destructor must not end the timer actor. Boxed, since it may be large.
pub struct Answer<T> {
    service: Arc<Service>,
    answer: Result<TimerId, Box<ScheduleError<T>>>,
}

impl<T> Answer<T> {
    pub(crate) fn new(service: &Arc<Service>, answer: Result<TimerId, Box<ScheduleError<T>>>) -> Self {
        Self { service: Arc::clone(service), answer }
    }
}

impl<T, Q> MessageResponse<TimerActor, Q> for Answer<T>
where
    Q: Message<Result = Result<TimerId, ScheduleError<T>>>,
{
    fn handle(self, _: &mut Context<TimerActor>, asker: Option<OneshotSender<Q::Result>>) {
        let Self { service, answer } = self;
        match asker {
            Some(asker) => send_reply_unboxed(&service, answer, asker),
            None => service.drop_contained(answer),
        }
    }
}

fn send_reply_unboxed<T>(
    service: &Service,
    answer: Result<TimerId, Box<ScheduleError<T>>>,
    asker: OneshotSender<Result<TimerId, ScheduleError<T>>>,
) {
    service.drop_contained(asker.send(answer.map_err(|rejected| *rejected)).err());
}

/// Sends a reply of several parts. If nobody awaits it, each part is dropped separately.
pub(crate) fn send_parts<T>(service: &Service, parts: Vec<T>, asker: Option<OneshotSender<Vec<T>>>) {
    let unheard = match asker {
        Some(asker) => asker.send(parts).err(),
        None => Some(parts),
    };
    drop_parts(service, unheard.into_iter().flatten());
}

/// Drops each part separately.
pub(crate) fn drop_parts<T>(service: &Service, parts: impl IntoIterator<Item = T>) {
    for part in parts {
        service.drop_contained(part);
    }
}
