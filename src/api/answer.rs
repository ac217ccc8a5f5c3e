//! Replies to requests that contain a user's messages.

use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Context, Message};

use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::service::state::Service;

/// A reply that may contain a user's message or message source, which is lost if nobody awaits the reply. Boxed, since it
/// may be large.
pub struct Answer<T> {
    pub(crate) service: Arc<Service>,
    pub(crate) answer: Result<TimerId, Box<ScheduleError<T>>>,
    /// Makes a dead letter of the message.
    pub(crate) lose: fn(&Service, Box<ScheduleError<T>>),
}

impl<T, Q: Message<Result = Result<TimerId, ScheduleError<T>>>> MessageResponse<TimerActor, Q> for Answer<T> {
    fn handle(self, _: &mut Context<TimerActor>, asker: Option<OneshotSender<Q::Result>>) {
        let Self { service, answer, lose } = self;
        let unheard = match asker {
            Some(asker) => send_reply_unboxed(answer, asker),
            None => answer.err(),
        };
        if let Some(rejected) = unheard {
            lose(&service, rejected);
        }
    }
}

/// Sends a reply. Returns a rejection that nobody awaits.
fn send_reply_unboxed<T>(
    answer: Result<TimerId, Box<ScheduleError<T>>>,
    asker: OneshotSender<Result<TimerId, ScheduleError<T>>>,
) -> Option<Box<ScheduleError<T>>> {
    asker.send(answer.map_err(|rejected| *rejected)).err()?.err().map(Box::new)
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
