//! Options of a durable timer besides its time and its message.

use std::time::Duration;

use super::record::RetryPolicy;
use super::store::OnKey;

/// Options of a durable timer besides its route, its time and its message.
///
/// ```
/// use actix_timers_durable::{DurableOptions, RetryPolicy};
///
/// let once = DurableOptions::new().if_absent("order-7");
/// let latest = DurableOptions::new().replace("order-7").retry(RetryPolicy::never());
/// assert_ne!(once, latest);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a timer is scheduled with them"]
pub struct DurableOptions {
    pub(crate) key: Option<(String, OnKey)>,
    pub(crate) keep_key: Option<Duration>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) jitter: Option<Duration>,
    pub(crate) spread: bool,
}

impl DurableOptions {
    /// Maximum length of a key in bytes.
    pub const MAX_KEY_LEN: usize = 512;

    /// Creates empty options.
    pub const fn new() -> Self {
        Self { key: None, keep_key: None, retry: None, headers: Vec::new(), jitter: None, spread: false }
    }

    /// Gives the timer an idempotency key. If a pending timer of the same route has it, that one stays, nothing is
    /// scheduled, and the result is [`Scheduled::Exists`](super::Scheduled::Exists): a request whose reply was lost can
    /// be repeated safely.
    ///
    /// The key is free again when its timer is complete, cancelled or a dead letter, unless it is
    /// [kept](Self::keep_key_for).
    pub fn if_absent(self, key: impl Into<String>) -> Self {
        Self { key: Some((key.into(), OnKey::KeepExisting)), ..self }
    }

    /// Gives the timer an idempotency key. If a pending timer of the same route has it, that one is cancelled in the
    /// same step, and the result is [`Scheduled::Replaced`](super::Scheduled::Replaced).
    ///
    /// A delivery of the old one in progress is not stopped, but will not be repeated.
    pub fn replace(self, key: impl Into<String>) -> Self {
        Self { key: Some((key.into(), OnKey::Replace)), ..self }
    }

    /// Keeps the key for this time, in milliseconds rounded up, after the timer (of a series, its last repetition) is complete:
    /// a request with [`if_absent`](Self::if_absent) finds it, so that one which comes late, or again, does nothing. A cancel
    /// and a dead letter free the key at once, and [`replace`](Self::replace) takes it from a timer that is complete.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers::ManualClock;
    /// # use actix_timers_durable::{Durable, DurableMessage, DurableOptions, DurableTimers, HandlerError, MemoryStore, Schedule, Scheduled};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Charge { order: u64 }
    /// # impl DurableMessage for Charge { const NAME: &'static str = "charge"; }
    /// # struct Bank;
    /// # impl Actor for Bank { type Context = Context<Self>; }
    /// # impl Handler<Durable<Charge>> for Bank {
    /// #     type Result = Result<(), HandlerError>;
    /// #     fn handle(&mut self, _: Durable<Charge>, _: &mut Context<Self>) -> Self::Result { Ok(()) }
    /// # }
    /// # System::new().block_on(async {
    /// # let clock = ManualClock::new();
    /// # let timers = DurableTimers::builder(MemoryStore::new()).route::<Charge>("bank", Bank.start()).clock(clock.clone()).start()?;
    /// let charge = || {
    ///     let once = DurableOptions::new().if_absent("order-7").keep_key_for(Duration::from_secs(86_400));
    ///     timers.schedule(Schedule::after("bank", Duration::ZERO, Charge { order: 7 }).options(once))
    /// };
    /// let first = charge().await?;
    /// clock.advance(Duration::from_secs(3600)).await;
    /// // It was charged an hour ago.
    /// assert_eq!(charge().await?, Scheduled::Exists(first.id()));
    /// # timers.stop().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub const fn keep_key_for(mut self, time: Duration) -> Self {
        self.keep_key = Some(time);
        self
    }

    /// Sets the retry policy for failures of the handler, in place of the route's.
    pub const fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Adds a header, which travels with the timer: over retries, repetitions and restarts, and with a dead letter. The
    /// handler sees it as [`Durable::header`](super::Durable::header). A repeated name replaces the earlier value.
    ///
    /// A timer has at most 64 headers, of 16 KiB together; see [`Headers`](super::Headers).
    ///
    /// ```
    /// use actix_timers_durable::DurableOptions;
    ///
    /// let traced = DurableOptions::new().header("traceparent", "00-4bf92f35-00f067aa-01").header("tenant", "7");
    /// # let _ = traced;
    /// ```
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Makes each repetition later than its time by a random part of `most`, in whole milliseconds. Timers of one cron
    /// expression are thus due at different times. The times themselves stay, so that nothing drifts.
    ///
    /// Only for timers that repeat; from a millisecond to less than a period.
    pub const fn jitter(mut self, most: Duration) -> Self {
        self.jitter = Some(most);
        self
    }

    /// Spreads timers of one period over it: the first repetition is later by less than a period, and the grid goes on from
    /// there. The phase of a timer is a hash of its route and [key](Self::if_absent), the same at each call; without a key it is
    /// random.
    ///
    /// Timers that were overdue together return to their phases: at a fixed rate, unless missed repetitions begin a
    /// new grid ([`Delay`](actix_timers::MissedTickBehavior::Delay)); with a fixed delay after a delivery that began a
    /// second late or more, as retries do, which the next one follows after one to two delays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix_timers_durable::{DurableMessage, DurableOptions, Schedule};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Bill(u32);
    /// # impl DurableMessage for Bill { const NAME: &'static str = "bill"; }
    ///
    /// // However many tenants there are, each minute of the hour has its share of them.
    /// let hour = Duration::from_secs(3600);
    /// let bill = |tenant: u32| {
    ///     let options = DurableOptions::new().if_absent(tenant.to_string()).spread();
    ///     Schedule::at_fixed_rate("office", hour, Bill(tenant)).options(options)
    /// };
    /// # let _ = bill;
    /// ```
    pub const fn spread(mut self) -> Self {
        self.spread = true;
        self
    }
}
