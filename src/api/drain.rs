//! The orderly end of a timer actor: it delivers messages that are due soon, and returns the others.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Context, Handler, Message};

use crate::api::answer::send_parts;
use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::view::Returned;
use crate::service::state::Service;

/// A request to close a timer actor, which replies with all undelivered messages, by deadline.
///
/// Once it is handled, every request for a new timer is rejected. [`Drain::now`] ends at once; [`Drain::within`] first
/// delivers the messages that fall due in the given time. Afterwards nothing is delivered; a second drain returns
/// nothing.
///
/// A message in a mailbox, or with its handler, at the end still arrives.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{Drain, TimerActor};
/// # #[derive(Message, Debug, PartialEq)]
/// # #[rtype(result = "()")]
/// # struct Remind(u32);
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let timers = TimerActor::builder().start()?;
/// let customer = Customer.start();
/// timers.schedule_after(&customer, Duration::from_millis(5), Remind(1));
/// timers.schedule_after(&customer, Duration::from_secs(3600), Remind(2));
///
/// let returned = timers.addr().send(Drain::within(Duration::from_secs(10))).await.unwrap();
/// assert_eq!(returned.len(), 1, "the first was delivered");
/// assert_eq!(returned[0].message::<Remind>(), Some(&Remind(2)));
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Vec<Returned>")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct Drain {
    within: Duration,
}

impl Drain {
    /// Returns a request to close at once.
    pub const fn now() -> Self {
        Self { within: Duration::ZERO }
    }

    /// Returns a request to close after the delivery of all messages that fall due within `time`: as soon as none of
    /// them is left, at the latest after `time`.
    pub const fn within(time: Duration) -> Self {
        Self { within: time }
    }
}

impl Timers {
    /// Closes the timer actor and returns all undelivered messages, by deadline. Afterwards nothing is delivered and
    /// every request is rejected; a second drain returns nothing.
    ///
    /// A message in a mailbox, or with its handler, at this moment still arrives.
    #[must_use = "nobody else delivers the returned messages"]
    pub fn drain(&self) -> Vec<Returned> {
        self.service().drain()
    }

    /// Rejects new timers from the first poll on, delivers the messages that fall due within `time`, and then acts as
    /// [`drain`](Self::drain): as soon as no such message is left, at the latest after `time`.
    ///
    /// If the future is dropped before it completes, the timer actor continues to deliver, and still rejects new
    /// timers.
    #[must_use = "nobody else delivers the returned messages"]
    pub async fn drain_within(&self, time: Duration) -> Vec<Returned> {
        Arc::clone(self.service()).drain_within(time).await
    }
}

/// The reply to a [`Drain`], possibly delayed.
pub struct Draining {
    service: Arc<Service>,
    within: Duration,
}

impl MessageResponse<TimerActor, Drain> for Draining {
    fn handle(self, _: &mut Context<TimerActor>, asker: Option<OneshotSender<Vec<Returned>>>) {
        let Self { service, within } = self;
        if within.is_zero() {
            return send_parts(&service, service.drain(), asker);
        }
        let draining = Arc::clone(&service).drain_within(within);
        actix_rt::spawn(async move { send_parts(&service, draining.await, asker) });
    }
}

impl Handler<Drain> for TimerActor {
    type Result = Draining;

    fn handle(&mut self, drain: Drain, _: &mut Context<Self>) -> Self::Result {
        Draining { service: Arc::clone(self.service()), within: drain.within }
    }
}
