//! The builder of durable timers.

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, Recipient};
use actix_timers::integration::{InternalTimers, builder_on_clock_of};
use actix_timers::{BuildError, Clock, TimerActor, TimerActorBuilder, Timers};

use super::committer::{Committer, CommitterClock, Listener, Reading, Setup};
use super::deliveries::{DeliveryConfig, DurableTimerActor, Event};
use super::due_time::DueTime;
use super::envelope::Durable;
use super::error::DurableBuildError;
use super::message::DurableMessage;
use super::payload_codec::{Codec, PayloadCodec};
use super::reply::note_panics;
use super::route::Route;
use super::routes::{Role, RouteOptions, Routes};
use super::store::Store;
use super::timers::{DurableTimers, Parts};
use super::trace;

/// A builder of durable timers; see [`DurableTimers::builder`].
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
    store: Box<dyn Store>,
    name: String,
    /// An internal timer actor with the clock. By default that is the system's, with the wall-clock time of the store.
    clock: Option<Box<TimerActorBuilder>>,
    /// The name of the timer actor whose clock it is.
    clock_of: Option<String>,
    routes: Result<Routes, DurableBuildError>,
    only_schedules: bool,
    /// The maximum number of changes in one commit.
    group: usize,
    config: DeliveryConfig,
}

impl DurableTimers {
    /// Returns a builder of durable timers that are kept in `store`.
    pub fn builder(store: impl Store) -> DurableTimersBuilder {
        DurableTimersBuilder {
            store: Box::new(store),
            name: "durable".to_owned(),
            clock: None,
            clock_of: None,
            routes: Ok(Routes::default()),
            only_schedules: false,
            group: 4096,
            config: DeliveryConfig { horizon: Duration::from_secs(10), loaded: 65_536, keep_dead_letters: None },
        }
    }
}

impl DurableTimersBuilder {
    /// Sets the name for metrics and for the committer's thread, default `durable`. Two durable timers of one name overwrite each
    /// other's gauges.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Registers a route: durable timers that name it deliver their messages of type `M` to `recipient`. A name can be
    /// registered once for each message type.
    ///
    /// Unlike targets of volatile timers, the recipient is held strongly: its actor lives as long as the durable timers
    /// run. If it stops nevertheless, the deliveries in its mailbox have failed, and later messages wait, without using up
    /// attempts, until the route is [connected](DurableTimers::connect) to another recipient.
    pub fn route<M: DurableMessage>(
        self,
        name: impl Into<Route<M>>,
        recipient: impl Into<Recipient<Durable<M>>>,
    ) -> Self {
        self.route_with(name, recipient, RouteOptions::new())
    }

    /// Registers a route with options.
    pub fn route_with<M: DurableMessage>(
        self,
        name: impl Into<Route<M>>,
        recipient: impl Into<Recipient<Durable<M>>>,
        options: RouteOptions,
    ) -> Self {
        self.register(name, options, Role::Delivers(Some(recipient.into())))
    }

    /// Registers a route whose recipient is [connected](DurableTimers::connect) later, for an actor that is created
    /// with a handle to the durable timers. Timers can be scheduled; due messages wait.
    pub fn open_route<M: DurableMessage>(self, name: impl Into<Route<M>>) -> Self {
        self.open_route_with::<M>(name, RouteOptions::new())
    }

    /// Registers a route with options, whose recipient is [connected](DurableTimers::connect) later.
    pub fn open_route_with<M: DurableMessage>(self, name: impl Into<Route<M>>, options: RouteOptions) -> Self {
        self.register::<M>(name, options, Role::Delivers(None))
    }

    /// Declares a route that other nodes of a shared store deliver, so that timers can be scheduled on it here.
    pub fn declare<M: DurableMessage>(self, name: impl Into<Route<M>>) -> Self {
        self.register::<M>(name, RouteOptions::new(), Role::Declares)
    }

    /// Delivers nothing: this node only schedules, cancels, moves and lists timers in a shared store. Its routes are
    /// only [declared](Self::declare).
    pub const fn schedule_only(mut self) -> Self {
        self.only_schedules = true;
        self
    }

    fn register<M: DurableMessage>(mut self, name: impl Into<Route<M>>, options: RouteOptions, role: Role<M>) -> Self {
        // `start` returns the first error.
        if let Ok(routes) = &mut self.routes
            && let Err(error) = routes.register(&name.into(), options, role)
        {
            self.routes = Err(error);
        }
        self
    }

    /// Transforms all messages before they are stored, and back: compression, encryption. It is applied after
    /// [`DurableMessage::encode`] and before [`DurableMessage::decode`]. Routes, keys and headers stay as they are.
    ///
    /// Timers that were stored without a codec are delivered as before. Timers whose payload the codec cannot decode
    /// are parked, as after [`DurableMessage::decode`] has failed.
    ///
    /// ```
    /// use actix_timers_durable::{DecodeError, DurableTimers, EncodeError, MemoryStore, PayloadCodec};
    ///
    /// /// Zeros, by their number: a stand-in for a compression.
    /// struct Zeros;
    ///
    /// impl PayloadCodec for Zeros {
    ///     fn id(&self) -> &str {
    ///         "zeros"
    ///     }
    ///
    ///     fn encode(&self, payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
    ///         let zeros = payload.iter().take_while(|byte| **byte == 0).count().min(255);
    ///         Ok([&[zeros as u8], &payload[zeros..]].concat())
    ///     }
    ///
    ///     fn decode(&self, id: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
    ///         match payload.split_first() {
    ///             Some((zeros, rest)) if id == "zeros" => Ok([&vec![0; (*zeros).into()], rest].concat()),
    ///             Some(_) => Err(DecodeError::unknown_codec(id)),
    ///             None => Err(DecodeError::malformed("no number of zeros")),
    ///         }
    ///     }
    /// }
    ///
    /// # actix::System::new().block_on(async {
    /// let timers = DurableTimers::builder(MemoryStore::new()).payload_codec(Zeros).start()?;
    /// # timers.stop().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn payload_codec(mut self, codec: impl PayloadCodec) -> Self {
        if let Ok(routes) = &mut self.routes {
            routes.codec = Codec::new(codec);
        }
        self
    }

    /// Sets the clock, default the system's.
    ///
    /// With a clock that is moved manually, or tokio's paused clock, everything happens at once on the calling threads:
    /// the same code is deterministic in a test.
    ///
    /// Beside a clock other than [`SystemClock`](actix_timers::SystemClock) timers of contexts are rejected unless a
    /// timer actor is [installed](TimerActorBuilder::install): their messages are lost with a warning, and `try_`
    /// methods return [`ScheduleError::NotInstalled`](actix_timers::ScheduleError::NotInstalled).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        (self.clock, self.clock_of) = (Some(Box::new(TimerActor::builder().clock(clock))), None);
        self
    }

    /// Takes the clock, and nothing else, of this timer actor, so that a test moves both together.
    ///
    /// An internal timer actor with fixed settings drives durable timers: ticks of 1 ms, no bound but
    /// [`loaded`](Self::loaded). The capacity, mailbox policy and other settings of `timers` do not affect it, nor does
    /// a drain or the end of `timers`; users of `timers` neither see nor cancel internal timers. `timers` need not be
    /// kept.
    ///
    /// If its clock is tokio's, and paused, it must run on the arbiter on which the durable timers are started.
    pub fn timers(mut self, timers: Timers) -> Self {
        self.clock = Some(Box::new(builder_on_clock_of(&timers)));
        self.clock_of = Some(timers.name().to_owned());
        self
    }

    /// Sets how far ahead timers are looked for, default ten seconds: farther, a minute, while few are due. A store that nodes
    /// share decides by itself: a fifth of a second ahead, or farther if looks take long.
    pub const fn horizon(mut self, horizon: Duration) -> Self {
        self.config.horizon = horizon;
        self
    }

    /// Limits the number of timers that memory knows before they are due, regardless of the number due within the
    /// [horizon](Self::horizon). Default 65 536, of some hundred bytes each, without their messages.
    pub const fn loaded(mut self, timers: usize) -> Self {
        self.config.loaded = timers;
        self
    }

    /// Limits the number of requests that share one commit, default 4096. Up to as many that are tried again share it.
    pub const fn group(mut self, requests: usize) -> Self {
        self.group = requests;
        self
    }

    /// Discards dead letters older than this, counted from the time at which they became dead letters. By default they
    /// stay until they are [requeued](DurableTimers::requeue) or [discarded](DurableTimers::discard).
    ///
    /// Old ones are looked for every sixteenth of this time, at most every second and at least every hour.
    pub const fn keep_dead_letters(mut self, time: Duration) -> Self {
        self.config.keep_dead_letters = Some(time);
        self
    }

    /// Starts the durable timers on the arbiter of this thread. Overdue messages are delivered at once, in the order of
    /// due times; beside many timers that were moved, or have repeated, some of those may come before others.
    ///
    /// The first start of a process adds a panic hook, which calls the one before it: the dead letter of a message
    /// whose handler panicked has the panic's text. A hook that is set later, and does not call the one before it, loses
    /// the texts.
    ///
    /// # Errors
    /// A route is registered twice, a bound is zero, no actix system runs on this thread, the store has another owner
    /// or cannot be read.
    pub fn start(self) -> Result<DurableTimers, DurableBuildError> {
        actix::Arbiter::try_current().ok_or(BuildError::NoSystem)?;
        note_panics();
        let Self { mut store, name, clock, clock_of, routes, only_schedules, group, config } = self;
        let mut routes = routes?;
        if only_schedules {
            routes.all.iter_mut().for_each(|route| route.delivers = false);
        }
        let sharing = store.sharing();
        if sharing.is_none() && (only_schedules || routes.all.iter().any(|route| !route.delivers)) {
            return Err(DurableBuildError::NotShared);
        }
        let routes = Arc::new(routes);
        let are_zero = [
            (config.horizon.is_zero(), "horizon"),
            (config.keep_dead_letters == Some(Duration::ZERO), "keep_dead_letters"),
            (config.loaded == 0, "loaded"),
            (group == 0, "group"),
        ];
        if let Some((_, setting)) = are_zero.into_iter().find(|(is_zero, _)| *is_zero) {
            return Err(DurableBuildError::Zero(setting));
        }
        let builder = match (clock, &sharing) {
            (Some(builder), _) => *builder,
            (None, Some(sharing)) => TimerActor::builder().clock(sharing.clock.system_clock()),
            (None, None) => TimerActor::builder(),
        };
        // Keeps the metric series of the two apart.
        let mark = if clock_of.is_some_and(|other| other == name) { " (durable)" } else { "" };
        let timers = InternalTimers::start(builder.name(format!("{name}{mark}")))?;
        let context = Context::new();
        let actor = context.address();
        let time = Arc::clone(timers.clock());
        let clock: CommitterClock =
            Arc::new(move || Reading { wall: DueTime::reached_at(time.wall()), time: time.now() });
        let beat =
            store.join(&routes.node(&name), clock().wall).map_err(|error| DurableBuildError::Store(Arc::new(error)))?;
        trace::joined(beat.released, beat.blamed.len());
        let (work, to) = (timers.clone(), actor.clone());
        let listener: Listener = Arc::new(move |report| to.do_send(Event::Reported(report, work.begin_work())));
        let claimed = beat.blamed.iter().map(|record| record.delivery()).collect();
        let setup = Setup { store, routes: Arc::clone(&routes), claimed, group, clock, listener, name };
        let committer = Committer::start(setup, timers.clock().wall_is_steady())?;
        let parts = Arc::new(Parts { committer, routes, timers, actor: actor.clone() });
        context.run(DurableTimerActor::new(config, sharing, Arc::clone(&parts)));
        actor.do_send(Event::Begin(beat));
        Ok(DurableTimers { parts })
    }
}
