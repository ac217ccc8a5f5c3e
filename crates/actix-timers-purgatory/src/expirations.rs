//! Time-outs: messages that timers deliver to an actor of the purgatory.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};

use crate::attempt::End;
use crate::request::Watched;

/// The actor that receives the time-outs.
pub(crate) struct Expirations;

impl Actor for Expirations {
    type Context = Context<Self>;
}

/// The time-out of a request. If it is dropped undelivered, since the timer actor was drained or its arbiter has
/// stopped, nothing else would end the request in time: it ends as closed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Expire(Option<Arc<dyn Watched>>);

impl Expire {
    pub(crate) fn new(request: Arc<dyn Watched>) -> Self {
        Self(Some(request))
    }

    /// Drops a message of which no timer was made.
    pub(crate) fn dismiss(mut self) {
        self.0 = None;
    }
}

impl Handler<Expire> for Expirations {
    type Result = ();

    fn handle(&mut self, mut message: Expire, _: &mut Self::Context) {
        if let Some(request) = message.0.take() {
            request.end(End::Expired);
        }
    }
}

impl Drop for Expire {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.end(End::Closed);
        }
    }
}
