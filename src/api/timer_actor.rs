//! The timer actor itself.

use std::fmt;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Supervised};

use crate::api::registry;
use crate::model::clock::Clock;
use crate::service::deliver::driver::Driver;
use crate::service::query::directory;
use crate::service::state::{Service, Settings};
use crate::trace;

/// The actor that holds timers and delivers their messages.
///
/// Usually each arbiter has one, which starts automatically when the first timer is scheduled through a context (see
/// [`TimerContext`](crate::TimerContext)) or when [`from_registry`](Self::from_registry) is called. More can be
/// [built](Self::builder), with other settings, or on dedicated arbiters.
/// [`install_for_all_arbiters`](crate::TimerActorBuilder::install_for_all_arbiters) changes the settings of the
/// automatic ones.
///
/// It is an actix service of both kinds: `<TimerActor as ArbiterService>::from_registry()` is the one of the arbiter,
/// `<TimerActor as SystemService>::from_registry()` the one of the whole system.
///
/// # When it stops
///
/// If its last address is dropped, a timer actor continues until its last timer has ended. If its arbiter or system
/// stops before, its pending timers are lost, and counted as dead letters with the reason `service_stopped`:
/// [`Drain`](crate::Drain) it first to get their messages back. Own timers of actors end with the arbiter, as cancelled.
pub struct TimerActor {
    service: Arc<Service>,
}

impl fmt::Debug for TimerActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerActor").field("name", &self.service.name).finish_non_exhaustive()
    }
}

impl TimerActor {
    #[cfg(any(test, actix_timers_simulation))]
    pub(crate) const fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    /// Creates a timer actor from settings that were checked.
    pub(crate) fn create(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let service = directory::enter(|number| Service::new(number, settings, clock));
        service.contain(|| trace::many_timer_actors(&service.name, directory::len()));
        Self { service }
    }

    pub(crate) const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Counts requests. After the number for one turn, due messages are delivered and other actors run before the next
    /// request.
    ///
    /// actix empties a mailbox before it polls anything else of the actor. Waiting for a future interrupts that.
    pub(crate) fn count_requests(&self, requests: usize, ctx: &mut Context<Self>) {
        if self.service.count_requests(requests) {
            ctx.wait(actix::fut::wrap_future(tokio::task::yield_now()));
        }
    }
}

impl Actor for TimerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        registry::note_started(&self.service);
        ctx.spawn(Driver::new(Arc::clone(&self.service)));
    }
}

impl Drop for TimerActor {
    fn drop(&mut self) {
        self.service.shut_down();
        directory::leave(self.service.number);
    }
}

/// A restart keeps all timers.
impl Supervised for TimerActor {}
