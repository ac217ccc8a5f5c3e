//! The timer actor of each arbiter: lookup and automatic start.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actix::dev::AsyncContextParts;
use actix::{Actor, Addr, Arbiter, ArbiterHandle, ArbiterService, AsyncContext, System, SystemService};

use crate::api::arbiter_settings;
use crate::api::builder::TimerActorBuilder;
use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::engine::OwnerId;
use crate::model::error::{BuildError, ScheduleError};
use crate::model::id::TimerId;
use crate::model::mailbox_id::MailboxId;
use crate::service::owner::thread_registry::{self, LocalService};
use crate::service::query::directory;
use crate::service::state::Service;
use crate::trace;

thread_local! {
    /// The timer actor of this arbiter, which is kept alive.
    static HERE: RefCell<Option<Timers>> = const { RefCell::new(None) };
}

/// Starts the clock of a timer actor on this arbiter, records its start, and registers it with the watchdog.
pub(crate) fn note_started(service: &Arc<Service>) {
    service.clock.started();
    let _ = service.thread.set(std::thread::current().id());
    if let Some(system) = System::try_current() {
        let _ = service.system.set(system.id());
    }
    service.join_watchdog();
}

/// Returns true if a timer actor with its own clock runs on this arbiter, [`install`]ed or not. A default one beside it,
/// on the system clock, would hardly be intended.
fn has_own_clocks() -> bool {
    directory::running().iter().any(|service| {
        !service.settings.on_system_clock && service.is_here() && !service.is_stopped() && is_of_this_system(service)
    })
}

/// Whether a service belongs to the present system of this thread: an earlier one may still be there, but does not run.
fn is_of_this_system(service: &Service) -> bool {
    service.system.get().copied() == System::try_current().map(|system| system.id())
}

/// Returns the service of this arbiter, if it runs.
fn current() -> Option<LocalService> {
    thread_registry::current().filter(|service| is_of_this_system(service))
}

/// Returns true if a timer actor that starts here by itself would run on another clock than the user expects.
fn is_clock_unsettled() -> bool {
    has_own_clocks() && arbiter_settings::of_this_system().is_none()
}

/// Creates a timer actor that starts by itself: with the settings for all arbiters, or else the default ones.
fn automatic() -> TimerActor {
    arbiter_settings::of_this_system().map_or_else(TimerActor::automatic, |settings| settings.create())
}

/// Returns the timers of this arbiter, started if necessary; `None` on a thread without an arbiter.
fn here() -> Option<Timers> {
    current().and_then(|_| HERE.with_borrow(Clone::clone)).or_else(|| {
        let arbiter = Arbiter::try_current()?;
        let timers = install(automatic(), |actor| TimerActor::start_in_arbiter(&arbiter, move |_| actor));
        // An arbiter that has ended drops new actors.
        (!timers.service().is_stopped()).then_some(timers)
    })
}

/// Makes `actor` the timer actor of this thread.
fn install(actor: TimerActor, start: impl FnOnce(TimerActor) -> Addr<TimerActor>) -> Timers {
    let service = Arc::clone(actor.service());
    // Not left to the actor's start, which waits as long as this thread is busy.
    note_started(&service);
    thread_registry::set_current(&service);
    let timers = Timers::new(service, start(actor));
    let earlier = HERE.replace(Some(timers.clone()));
    drop(earlier);
    timers
}

/// Returns the owner for the actor behind `ctx`, created if necessary, and the service of this arbiter.
#[inline]
pub(crate) fn owner_of_context<A, C>(ctx: &mut C) -> Result<(LocalService, OwnerId), ScheduleError<()>>
where
    A: Actor<Context = C>,
    C: AsyncContext<A> + AsyncContextParts<A>,
{
    let started = ctx.parts().started();
    if started && let Some(known) = thread_registry::owner_at(thread_registry::context_address(ctx)) {
        return Ok(known);
    }
    owner_of_new_context(ctx, started)
}

/// Returns the owner for an actor whose context is not registered.
#[inline(never)]
fn owner_of_new_context<A, C>(ctx: &mut C, started: bool) -> Result<(LocalService, OwnerId), ScheduleError<()>>
where
    A: Actor<Context = C>,
    C: AsyncContext<A> + AsyncContextParts<A>,
{
    let service = service_of_context(started)?;
    let owner = service.owner_with_inbox(ctx).ok_or(ScheduleError::NoSystem { message: () })?;
    Ok((service, owner))
}

/// Returns the service for the contexts of this arbiter, started if necessary. `started`: one of them runs.
pub(crate) fn service_of_context(started: bool) -> Result<LocalService, ScheduleError<()>> {
    match current() {
        Some(service) => Ok(service),
        None if is_clock_unsettled() => Err(ScheduleError::NotInstalled { message: () }),
        None => here()
            // A thread may run actors without being an arbiter.
            .or_else(|| started.then(|| install(automatic(), Actor::start)))
            .map(|timers| Rc::new(Arc::clone(timers.service())))
            .ok_or(ScheduleError::NoSystem { message: () }),
    }
}

/// Reports a message that is lost because this thread has no timer actor, and returns an id that no timer has.
#[cold]
#[inline(never)]
pub(crate) fn lost_without_timers(reason: &ScheduleError<()>, message_type: &'static str) -> TimerId {
    trace::lost_without_timers(message_type, reason);
    TimerId::new()
}

/// Returns the owner for the actor behind `ctx`, if there is one. Changes nothing.
pub(crate) fn known_owner_of_context<A, C>(ctx: &mut C) -> Option<(LocalService, OwnerId)>
where
    A: Actor<Context = C>,
    C: AsyncContext<A> + AsyncContextParts<A>,
{
    if ctx.parts().started()
        && let Some(known) = thread_registry::owner_at(thread_registry::context_address(ctx))
    {
        return Some(known);
    }
    let service = thread_registry::current()?;
    let owner = service.state().owner_at(MailboxId::of(&ctx.address())?)?;
    Some((service, owner))
}

impl Timers {
    /// Returns the timers of this thread's arbiter, whose timer actor is started if necessary. `None` if no arbiter
    /// runs on this thread (those of a `SyncArbiter` have none), or if a timer actor with its own clock was started here
    /// and none installed, neither [here](TimerActorBuilder::install) nor
    /// [for all arbiters](TimerActorBuilder::install_for_all_arbiters).
    ///
    /// Each arbiter has a timer actor of its own, as each worker of an actix-web server: keys, groups, lists and drains are
    /// those of one timer actor.
    pub fn current() -> Option<Self> {
        if current().is_none() && is_clock_unsettled() {
            return None;
        }
        here()
    }
}

impl TimerActor {
    /// Returns the timer actor of this arbiter, started if necessary: with the settings
    /// [for all arbiters](TimerActorBuilder::install_for_all_arbiters), or else the default ones and the system clock,
    /// whatever other timer actors run here. For other settings, [install](TimerActorBuilder::install) one first.
    ///
    /// # Panics
    /// Like actix's own `from_registry`, outside of a running arbiter. [`Timers::current`] returns `None` instead.
    pub fn from_registry() -> Addr<Self> {
        <Self as ArbiterService>::from_registry()
    }
}

impl TimerActorBuilder {
    /// Builds the actor and makes it *the* timer actor of this thread's arbiter: the one that `ctx.schedule_after` and
    /// [`TimerActor::from_registry`] use. Without this call they start one, with the settings
    /// [for all arbiters](Self::install_for_all_arbiters) or else the default ones. Other arbiters, such as the workers
    /// of an actix-web server, are not affected.
    ///
    /// # Errors
    /// [`BuildError`] if a value is out of range, no actix system runs on this thread, or its arbiter already has a
    /// timer actor: an [installed](BuildError::AlreadyInstalled) one, or a [default](BuildError::AlreadyRunning) one.
    pub fn install(self) -> Result<Timers, BuildError> {
        if let Some(here) = current() {
            let automatic = here.settings.automatic;
            return Err(if automatic { BuildError::AlreadyRunning } else { BuildError::AlreadyInstalled });
        }
        let arbiter = Arbiter::try_current().ok_or(BuildError::NoSystem)?;
        Ok(install(self.build()?, |actor| TimerActor::start_in_arbiter(&arbiter, move |_| actor)))
    }

    /// Sets the settings of every timer actor that starts by itself in the actix system of this thread: on each
    /// arbiter, also on later ones, such as the workers of an actix-web server. Call it once, in `main`.
    ///
    /// It starts nothing: the first timer of an arbiter starts the timer actor there. An arbiter on which one was
    /// [installed](Self::install) keeps it. Other actix systems of the process are not affected, so tests that run in
    /// one process are independent of each other.
    ///
    /// `actix_test::start` runs its server in a system of its own, which settings of the test do not reach. Its workers
    /// call the factory of the application in that system: call this function there, too. The first worker's call
    /// counts, the others return [`BuildError::AlreadyInstalledForAllArbiters`].
    ///
    /// Each timer actor has the whole [capacity](Self::capacity). A [name](Self::name) is followed by a hyphen and the
    /// lowest number from 1 on that no running one of them has, so that each has series of its own in the metrics.
    /// All run on the same [clock](Self::clock); but if that is the [`SystemClock`](crate::SystemClock), each has its
    /// own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerActor, Timers};
    ///
    /// # System::new().block_on(async {
    /// TimerActor::builder().name("web").tick(Duration::from_millis(10)).install_for_all_arbiters()?;
    ///
    /// let here = Timers::current().unwrap();
    /// assert_eq!(here.name(), "web-1");
    /// let (tell, told) = tokio::sync::oneshot::channel();
    /// let worker = Arbiter::new();
    /// worker.spawn_fn(move || tell.send(Timers::current().unwrap()).unwrap());
    /// let there = told.await.unwrap();
    /// assert_eq!((there.name(), there.snapshot().tick), ("web-2", Duration::from_millis(10)));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] if a value is out of range, no actix system runs on this thread, the system already has settings
    /// for all arbiters, or a timer actor has already started by itself, without them.
    pub fn install_for_all_arbiters(self) -> Result<(), BuildError> {
        arbiter_settings::install(self.for_arbiters()?)
    }
}

impl ArbiterService for TimerActor {
    fn start_service() -> Addr<Self> {
        match here() {
            Some(timers) => timers.addr().clone(),
            None => panic!("a timer actor needs a running arbiter on this thread"),
        }
    }

    fn from_registry() -> Addr<Self> {
        <Self as ArbiterService>::start_service()
    }
}

impl SystemService for TimerActor {
    fn start_service(arbiter: &ArbiterHandle) -> Addr<Self> {
        Self::start_in_arbiter(arbiter, |_| automatic())
    }
}
