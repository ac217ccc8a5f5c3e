//! How durable timers are set up.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Actor, Recipient};
use actix_timers::integration::{InternalTimers, builder_on_clock_of};
use actix_timers::{BuildError, Clock, TimerActor, TimerActorBuilder, Timers};

use super::committer::{Committer, CommitterClock};
use super::dispatcher::{Begin, DurableTimerActor};
use super::due_time::DueTime;
use super::envelope::Durable;
use super::error::DurableBuildError;
use super::horizon::WheelHorizon;
use super::ledger::{Ledger, LedgerConfig, Reading};
use super::message::DurableMessage;
use super::routes::{RouteOptions, Routes};
use super::store::TimerStore;
use super::timers::DurableTimers;

/// Sets up durable timers; made by [`DurableTimers::builder`].
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers_durable::{Durable, DurableMessage, DurableTimers, HandlerError, MemoryStore, RetryPolicy, RouteOptions};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
/// # struct Office;
/// # impl Actor for Office { type Context = Context<Self>; }
/// # impl Handler<Durable<Remind>> for Office {
/// #     type Result = Result<(), HandlerError>;
/// #     fn handle(&mut self, _: Durable<Remind>, _: &mut Context<Self>) -> Self::Result { Ok(()) }
/// # }
///
/// # System::new().block_on(async {
/// let office = Office.start();
/// let gentle = RouteOptions::new().window(8).retry(RetryPolicy::default().max_attempts(20));
/// let timers = DurableTimers::builder(MemoryStore::new())
///     .name("reminders")
///     .route_with::<Remind>("by post", office.clone(), gentle)
///     .route::<Remind>("by mail", office)
///     .horizon(Duration::from_secs(300))
///     .start()?;
/// # timers.stop().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a builder does nothing until `start`"]
pub struct DurableTimersBuilder {
    store: Box<dyn TimerStore>,
    name: String,
    clock: ClockOf,
    routes: Result<Routes, DurableBuildError>,
    config: LedgerConfig,
}

/// The clock that internal timers run on.
enum ClockOf {
    /// Set up in an internal timer actor, or that of the system.
    Itself(Box<TimerActorBuilder>),
    /// That of a timer actor of the user's.
    Given(Timers),
}

impl DurableTimers {
    /// Sets up durable timers that are kept in `store`.
    pub fn builder(store: impl TimerStore) -> DurableTimersBuilder {
        DurableTimersBuilder {
            store: Box::new(store),
            name: "durable".to_owned(),
            clock: ClockOf::Itself(Box::default()),
            routes: Ok(Routes::default()),
            config: LedgerConfig::default(),
        }
    }
}

impl DurableTimersBuilder {
    /// A name for metrics, and for the thread that writes. `durable` unless said otherwise.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Registers a route: durable timers that name it deliver their messages of type `M` to `recipient`. One name can be
    /// registered for several types of messages, each once.
    ///
    /// Unlike targets of volatile timers the recipient is held strongly, so that its actor lives as long as the durable timers
    /// run. If it stops all the same its messages wait, and no attempt is used up, until the route is
    /// [connected](DurableTimers::connect) to another one.
    pub fn route<M: DurableMessage>(self, name: &str, recipient: impl Into<Recipient<Durable<M>>>) -> Self {
        self.route_with(name, recipient, RouteOptions::new())
    }

    /// Registers a route with options.
    pub fn route_with<M: DurableMessage>(
        self,
        name: &str,
        recipient: impl Into<Recipient<Durable<M>>>,
        options: RouteOptions,
    ) -> Self {
        self.register(name, options, Some(recipient.into()))
    }

    /// Registers a route whose recipient comes [later](DurableTimers::connect): for an actor that needs the durable timers to
    /// be made. Timers can be scheduled, and what is due waits.
    pub fn open_route<M: DurableMessage>(self, name: &str) -> Self {
        self.open_route_with::<M>(name, RouteOptions::new())
    }

    /// Registers a route whose recipient comes [later](DurableTimers::connect), with options.
    pub fn open_route_with<M: DurableMessage>(self, name: &str, options: RouteOptions) -> Self {
        self.register::<M>(name, options, None)
    }

    fn register<M: DurableMessage>(
        mut self,
        name: &str,
        options: RouteOptions,
        recipient: Option<Recipient<Durable<M>>>,
    ) -> Self {
        // The first mistake is told when the timers are started.
        if let Ok(routes) = &mut self.routes
            && let Err(error) = routes.register(name, options, recipient)
        {
            self.routes = Err(error);
        }
        self
    }

    /// The clock. That of the system unless said otherwise.
    ///
    /// With a clock that is moved by hand, or tokio's when it is paused, everything happens on the threads of those who ask, at
    /// once: the same code is deterministic in a test.
    ///
    /// Beside a clock other than [`SystemClock`](actix_timers::SystemClock) timers of contexts are refused
    /// ([`ScheduleError::NotInstalled`](actix_timers::ScheduleError::NotInstalled)) unless a timer actor is
    /// [installed](TimerActorBuilder::install).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = ClockOf::Itself(Box::new(TimerActor::builder().clock(clock)));
        self
    }

    /// The clock of this timer actor: in a test both are moved together. Nothing else is taken from it.
    ///
    /// An internal timer actor with fixed settings drives durable timers: ticks of 1 ms, no bound but [`loaded`](Self::loaded). The
    /// capacity, mailbox policy and other settings of `timers` have no effect on it, nor has a drain or its end, and its users
    /// neither see nor cancel internal timers. It need not be kept.
    ///
    /// If its clock is tokio's, and paused, it has to run on the arbiter on which the durable timers are started.
    pub fn timers(mut self, timers: Timers) -> Self {
        self.clock = ClockOf::Given(timers);
        self
    }

    /// What is due within this time is in memory, the rest in the store alone. A minute unless said otherwise.
    pub const fn horizon(mut self, horizon: Duration) -> Self {
        self.config.horizon = horizon;
        self
    }

    /// At most so many timers are in memory, however many are due within the [horizon](Self::horizon). 262 144 unless said
    /// otherwise.
    pub const fn loaded(mut self, timers: usize) -> Self {
        self.config.loaded = timers;
        self
    }

    /// At most so many bytes of messages are in memory, besides what is being delivered; one is, however large it is. 256 MiB
    /// unless said otherwise.
    pub const fn loaded_bytes(mut self, bytes: usize) -> Self {
        self.config.loaded_bytes = bytes;
        self
    }

    /// At most so many requests share one commit. 4096 unless said otherwise.
    pub const fn group(mut self, requests: usize) -> Self {
        self.config.group = requests;
        self
    }

    /// Starts them on the arbiter of this thread. What is overdue is delivered at once, in the order of due times.
    ///
    /// # Errors
    /// A route is registered twice, a bound is zero, no actix system runs on this thread, or the store belongs to somebody
    /// else or cannot be read.
    pub fn start(self) -> Result<DurableTimers, DurableBuildError> {
        actix::Arbiter::try_current().ok_or(BuildError::NoSystem)?;
        let Self { store, name, clock, routes, config } = self;
        let routes = Arc::new(routes?);
        if config.horizon.is_zero() {
            return Err(DurableBuildError::Zero("horizon"));
        }
        for (value, setting) in
            [(config.loaded, "loaded"), (config.loaded_bytes, "loaded_bytes"), (config.group, "group")]
        {
            if value == 0 {
                return Err(DurableBuildError::Zero(setting));
            }
        }
        let builder = match clock {
            // The series of the two are not to be mixed up.
            ClockOf::Given(given) if given.name() == name => {
                builder_on_clock_of(&given).name(format!("{name} (durable)"))
            }
            ClockOf::Given(given) => builder_on_clock_of(&given).name(&*name),
            ClockOf::Itself(builder) => builder.name(&*name),
        };
        let timers = InternalTimers::start(builder)?;
        let place = Arc::new(OnceLock::new());
        let actor = DurableTimerActor::new(Arc::clone(&routes), timers.clone(), Arc::clone(&place)).start();
        let known = Arc::clone(&routes);
        let policy_of = Box::new(move |route: &str, message_type: &str| {
            known.place(route, message_type).map(|place| known.all()[place].options.retry)
        });
        let horizon = WheelHorizon::new(timers.clone(), &actor);
        let ledger = Ledger::open(store, config, policy_of, horizon)
            .map_err(|error| DurableBuildError::Store(Arc::new(error)))?;
        let time = Arc::clone(timers.clock());
        let reading: CommitterClock =
            Arc::new(move || Reading { wall: DueTime::reached_at(time.wall()), time: time.now() });
        let committer = if timers.clock().wall_is_steady() {
            Committer::inline(ledger, reading, &name)
        } else {
            Committer::start_thread(ledger, reading, &name).map_err(DurableBuildError::Thread)?
        };
        let _ = place.set(committer.clone());
        let durable = DurableTimers::new(committer, routes, timers, actor.clone());
        actor.do_send(Begin(durable.clone()));
        Ok(durable)
    }
}
