//! The setup of a timer actor.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ArbiterHandle};

use crate::api::arbiter_settings::{self, ArbiterSettings};
use crate::api::config::TimerActorConfig;
use crate::api::registry;
use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::engine::{EngineConfig, MAX_CAPACITY};
use crate::model::clock::{Clock, Forward, SystemClock};
use crate::model::error::BuildError;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::secret::Secret;
use crate::service::state::Settings;
use crate::timing::{TickLength, WheelSize};

/// A builder of a [`TimerActor`]; created by [`TimerActor::builder`].
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::TimerActor;
///
/// # System::new().block_on(async {
/// let timers = TimerActor::builder()
///     .name("orders")
///     .tick(Duration::from_millis(10))
///     .capacity(1_000_000)
///     .start()?;
/// # drop(timers);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[must_use = "a builder does nothing until `build`, `start`, `start_on` or one of the `install` methods"]
pub struct TimerActorBuilder {
    config: TimerActorConfig,
    clock: Option<Arc<dyn Clock>>,
    on_system_clock: bool,
    /// Whether the system clock was created without the kernel timer.
    without_kernel_timer: bool,
    internal: bool,
}

impl Default for TimerActorBuilder {
    fn default() -> Self {
        Self::from(TimerActorConfig::default())
    }
}

impl fmt::Debug for TimerActorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerActorBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl From<TimerActorConfig> for TimerActorBuilder {
    fn from(config: TimerActorConfig) -> Self {
        Self { config, clock: None, on_system_clock: true, without_kernel_timer: false, internal: false }
    }
}

impl TimerActorBuilder {
    /// Sets the resolution: deadlines are rounded up to a multiple of it. Default 1 ms; 1 µs to 24 h.
    ///
    /// With [`SystemClock`] a tick below a millisecond makes messages more punctual only on Linux, with its kernel
    /// timers. Elsewhere, and where tokio's clock is paused, tokio wakes a task at whole milliseconds.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.config.tick = tick;
        self
    }

    /// Sets the number of buckets in one turn of a level. Default 256; 2 to 65 536. See `docs/decisions/wheel.md` for the
    /// choice of the default.
    pub fn wheel_size(mut self, buckets: usize) -> Self {
        self.config.wheel_size = buckets;
        self
    }

    /// Sets the maximum number of pending timers; further messages are rejected and returned. Default 4 294 967 294.
    pub fn capacity(mut self, timers: usize) -> Self {
        self.config.capacity = timers;
        self
    }

    /// Sets the name, which is the label `timer` of all its metrics. Default `timers-` and a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = Some(name.into());
        self
    }

    /// Sets the number of entries moved in one turn, delivered or cascaded, before other actors of the arbiter run.
    /// Default 256.
    pub fn expiry_budget(mut self, entries: usize) -> Self {
        self.config.expiry_budget = entries;
        self
    }

    /// Sets the number of requests handled from the mailbox in one turn, before due messages are delivered and other
    /// actors of the arbiter run. Default 256.
    pub fn request_budget(mut self, requests: usize) -> Self {
        self.config.request_budget = requests;
        self
    }

    /// Sets the interval of wall-clock checks while timers that follow the wall clock are pending, to detect that it
    /// was stepped or the machine suspended. Default 10 s; `Duration::MAX` for never. Without such timers there is no
    /// check.
    pub fn wall_clock_check_interval(mut self, every: Duration) -> Self {
        self.config.wall_clock_check_interval = every;
        self
    }

    /// Sets the policy for recipients that do not keep up; a [`Target`](crate::Target) may have its own. Default
    /// [`MailboxPolicy::Unbounded`].
    pub fn mailbox_policy(mut self, policy: MailboxPolicy) -> Self {
        self.config.mailbox_policy = policy;
        self
    }

    /// Sets the time after which a due message that its recipient does not take is reported: the metrics are published
    /// and, with the feature `tracing`, a warning is emitted; again whenever the time has doubled. Default 10 s;
    /// `Duration::MAX` for never. Raise it if recipients are expected to be behind for long.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.config.stuck_after = time;
        self
    }

    /// Sets the clock. Default [`SystemClock`].
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        let system_clock = (&clock as &dyn Any).downcast_ref::<SystemClock>();
        self.on_system_clock = system_clock.is_some();
        self.without_kernel_timer = system_clock.is_some_and(SystemClock::is_without_kernel_timer);
        self.clock = Some(Arc::new(Forward::new(clock)));
        self
    }

    /// Uses the clock of an existing timer actor, without its other settings.
    pub(crate) fn clock_of(mut self, timers: &Timers) -> Self {
        let service = timers.service();
        self.on_system_clock = service.settings.on_system_clock;
        self.clock = Some(Arc::clone(&service.clock));
        self
    }

    /// Hides the timer actor: it holds internal timers of the crate, which users of other timer actors neither see nor
    /// reach. Its [`Timers`] must not be passed on.
    pub(crate) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Seeds [jitter](crate::TimerOptions::jitter), so that it is the same in every run, for tests. Default: random.
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.config.jitter_seed = Some(seed);
        self
    }

    /// Checks all settings and builds the actor, to be started by actix's own means.
    ///
    /// # Errors
    /// [`BuildError`] if a value is out of range, or the operating system has no random numbers for ids.
    pub fn build(self) -> Result<TimerActor, BuildError> {
        let secret = Secret::from_os().ok_or(BuildError::NoRandomness)?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        Ok(TimerActor::create(self.settings(secret)?, clock))
    }

    /// Checks all settings, for the timer actor of each arbiter.
    pub(crate) fn for_arbiters(self) -> Result<ArbiterSettings, BuildError> {
        let secret = Secret::from_os().ok_or(BuildError::NoRandomness)?;
        let without_kernel_timer = self.without_kernel_timer;
        let shared = self.clock.clone().filter(|_| !self.on_system_clock);
        let clock = move || shared.clone().unwrap_or_else(|| Arc::new(SystemClock::with(without_kernel_timer)));
        Ok(ArbiterSettings::new(self.settings(secret)?, clock))
    }

    /// Checks all settings.
    fn settings(self, secret: Secret) -> Result<Settings, BuildError> {
        let Self { config, on_system_clock, internal, .. } = self;
        let tick = TickLength::new(config.tick)?;
        let wheel_size = WheelSize::new(config.wheel_size)?;
        for (is_zero, name) in [
            (config.capacity == 0, "capacity"),
            (config.expiry_budget == 0, "expiry_budget"),
            (config.request_budget == 0, "request_budget"),
            (config.wall_clock_check_interval.is_zero(), "wall_clock_check_interval"),
            (config.stuck_after.is_zero(), "stuck_after"),
        ] {
            if is_zero {
                return Err(BuildError::Zero(name));
            }
        }
        if config.capacity > MAX_CAPACITY {
            return Err(BuildError::Capacity(config.capacity));
        }
        Ok(Settings {
            engine: EngineConfig { tick, wheel_size, capacity: config.capacity, ..EngineConfig::default() },
            name: config.name,
            expiry_budget: config.expiry_budget,
            request_budget: config.request_budget,
            wall_clock_check_interval: config.wall_clock_check_interval,
            mailbox_policy: config.mailbox_policy,
            stuck_after: config.stuck_after,
            on_system_clock,
            jitter_seed: config.jitter_seed,
            secret,
            internal,
            automatic: false,
        })
    }

    /// Builds the actor, starts it on the arbiter of this thread and returns its [`Timers`]. Contexts do not use it,
    /// but the [installed](Self::install) one. If this one has its own [clock](Self::clock) and none is installed,
    /// timers of contexts are rejected instead of running on the system clock: their messages are lost with a warning,
    /// and `try_` methods return [`ScheduleError::NotInstalled`](crate::ScheduleError::NotInstalled).
    ///
    /// # Errors
    /// [`BuildError`] if a value is out of range or no actix system runs on this thread.
    pub fn start(self) -> Result<Timers, BuildError> {
        let arbiter = actix::Arbiter::try_current().ok_or(BuildError::NoSystem)?;
        let timers = self.start_on(&arbiter)?;
        // The actor starts in a later turn of the arbiter; other threads may read the time before.
        registry::note_started(timers.service());
        Ok(timers)
    }

    /// Builds the actor and starts it on another arbiter, for example a dedicated one.
    ///
    /// # Errors
    /// [`BuildError`] if a value is out of range.
    pub fn start_on(self, arbiter: &ArbiterHandle) -> Result<Timers, BuildError> {
        let actor = self.build()?;
        let service = Arc::clone(actor.service());
        Ok(Timers::new(service, TimerActor::start_in_arbiter(arbiter, move |_| actor)))
    }
}

impl TimerActor {
    /// Returns a builder with the default settings.
    pub fn builder() -> TimerActorBuilder {
        TimerActorBuilder::default()
    }
}

/// A timer actor with the default settings. If the operating system has no random numbers, its ids can be guessed with
/// much effort, whereas [`TimerActorBuilder::build`] fails.
impl Default for TimerActor {
    fn default() -> Self {
        Self::with_default_settings(false)
    }
}

impl TimerActor {
    /// Creates one with the default settings that starts by itself; or with the settings for all arbiters, if they have
    /// been installed by the time it is created.
    pub(crate) fn automatic() -> Self {
        let actor = Self::with_default_settings(true);
        match arbiter_settings::join_system(actor.service()) {
            None => actor,
            Some(settings) => settings.create(),
        }
    }

    fn with_default_settings(automatic: bool) -> Self {
        match TimerActorBuilder::default().settings(Secret::new()) {
            Ok(settings) => Self::create(Settings { automatic, ..settings }, Arc::new(SystemClock::new())),
            Err(error) => unreachable!("the default settings are in range: {error}"),
        }
    }
}
