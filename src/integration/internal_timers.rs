//! A timer actor for a companion crate's own timers.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use crate::api::builder::TimerActorBuilder;
use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::clock::{Clock, SystemClock};
use crate::model::error::BuildError;
use crate::service::query::activity::ExternalWork;
use crate::service::state::Service;

/// A timer actor that is invisible and inaccessible to applications: no id finds its timers, no trace shows them, and
/// none becomes a dead letter when it stops.
///
/// Dereferences to its [`Timers`], which must not be passed on.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{CancelOutcome, TimerActor, cancel};
/// use actix_timers::integration::InternalTimers;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Renew;
/// # struct Keeper;
/// # impl Actor for Keeper { type Context = Context<Self>; }
/// # impl Handler<Renew> for Keeper { type Result = (); fn handle(&mut self, _: Renew, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let timers = InternalTimers::start(TimerActor::builder().name("leases"))?;
/// let id = timers.schedule_after(&Keeper.start(), Duration::from_secs(60), Renew);
/// assert_eq!(cancel(id), CancelOutcome::NotFound);
/// assert_eq!(timers.cancel(id), CancelOutcome::Cancelled);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct InternalTimers(Timers);

impl InternalTimers {
    /// Starts an internal timer actor on the arbiter of this thread.
    ///
    /// # Errors
    /// As [`TimerActorBuilder::start`].
    pub fn start(builder: TimerActorBuilder) -> Result<Self, BuildError> {
        builder.internal().start().map(Self)
    }

    /// Wraps an internal timer actor that runs in a simulation.
    #[cfg(any(test, actix_timers_simulation))]
    pub(crate) const fn of(timers: Timers) -> Self {
        Self(timers)
    }

    /// Returns the clock of the timer actor.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.service().clock
    }

    /// Notes that a delivered message was handled. A test in virtual time that waits for all due messages then
    /// continues to wait.
    pub fn note_progress(&self) {
        self.service().note_progress();
    }

    /// Notes the beginning of work on another thread. A test in virtual time that waits for all due messages waits for
    /// its end.
    pub fn begin_work(&self) -> ExternalWork {
        self.service().working()
    }

    fn service(&self) -> &Arc<Service> {
        self.0.service()
    }
}

impl Deref for InternalTimers {
    type Target = Timers;

    fn deref(&self) -> &Timers {
        &self.0
    }
}

/// Returns a system clock with the wall-clock time of another source, beside which timers of contexts go on as beside any system
/// clock. `wall` may be called on any thread, also while a timer actor works: it must not take long.
pub fn system_clock_with_wall(wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> SystemClock {
    SystemClock::with_wall(wall)
}

/// Returns a builder of a timer actor on the clock of another one, without its other settings.
pub fn builder_on_clock_of(timers: &Timers) -> TimerActorBuilder {
    TimerActor::builder().clock_of(timers)
}
