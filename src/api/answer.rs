//! Replies to requests that contain a user's messages.

use std::sync::Arc;
use std::{iter, vec};

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

/// A reply that can be dropped part by part.
pub(crate) trait Parts {
    type Parts: Iterator;
    fn parts(self) -> Self::Parts;
}

impl<T, E> Parts for Result<T, E> {
    type Parts = iter::Once<Self>;

    fn parts(self) -> Self::Parts {
        iter::once(self)
    }
}

impl<T> Parts for Vec<T> {
    type Parts = vec::IntoIter<T>;

    fn parts(self) -> Self::Parts {
        self.into_iter()
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
    send_reply(service, answer.map_err(|rejected| *rejected), Some(asker));
}

/// Sends a reply, or drops it if nobody awaits it.
pub(crate) fn send_reply<R: Parts>(service: &Service, answer: R, asker: Option<OneshotSender<R>>) {
    let unheard = match asker {
        Some(asker) => asker.send(answer).err(),
        None => Some(answer),
    };
    if let Some(unheard) = unheard {
        drop_parts(service, unheard);
    }
}

/// Drops each part separately.
pub(crate) fn drop_parts(service: &Service, answer: impl Parts) {
    for part in answer.parts() {
        service.drop_contained(part);
    }
}
