//! The settings of a timer actor as a value, to be read from a file.

use std::time::Duration;

use crate::engine::MAX_CAPACITY;
#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::timing::{TickLength, WheelSize};

/// The settings of a timer actor as a value: all settings of [`TimerActorBuilder`](crate::TimerActorBuilder) except the clock.
///
/// It starts with the defaults and converts into a builder, which checks it. With the feature `serde` it can be read
/// from a configuration: missing fields have their defaults, unknown fields are errors, and durations are texts of
/// whole numbers with units (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`), as `250ms` or `1h30m`, or `forever`.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{TimerActorBuilder, TimerActorConfig};
///
/// # System::new().block_on(async {
/// let mut config = TimerActorConfig::default();
/// config.name = Some("orders".to_owned());
/// config.tick = Duration::from_millis(10);
/// let timers = TimerActorBuilder::from(config).start()?;
/// assert_eq!(timers.name(), "orders");
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct TimerActorConfig {
    /// See [`TimerActorBuilder::name`](crate::TimerActorBuilder::name).
    pub name: Option<String>,
    /// See [`TimerActorBuilder::tick`](crate::TimerActorBuilder::tick).
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub tick: Duration,
    /// See [`TimerActorBuilder::wheel_size`](crate::TimerActorBuilder::wheel_size).
    pub wheel_size: usize,
    /// See [`TimerActorBuilder::capacity`](crate::TimerActorBuilder::capacity).
    pub capacity: usize,
    /// See [`TimerActorBuilder::mailbox_policy`](crate::TimerActorBuilder::mailbox_policy).
    pub mailbox_policy: MailboxPolicy,
    /// See [`TimerActorBuilder::expiry_budget`](crate::TimerActorBuilder::expiry_budget).
    pub expiry_budget: usize,
    /// See [`TimerActorBuilder::request_budget`](crate::TimerActorBuilder::request_budget).
    pub request_budget: usize,
    /// See [`TimerActorBuilder::wall_clock_check_interval`](crate::TimerActorBuilder::wall_clock_check_interval).
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub wall_clock_check_interval: Duration,
    /// See [`TimerActorBuilder::stuck_after`](crate::TimerActorBuilder::stuck_after).
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub stuck_after: Duration,
    /// See [`TimerActorBuilder::jitter_seed`](crate::TimerActorBuilder::jitter_seed).
    pub jitter_seed: Option<u64>,
}

impl Default for TimerActorConfig {
    fn default() -> Self {
        Self {
            name: None,
            tick: TickLength::default().length(),
            wheel_size: WheelSize::default().get(),
            capacity: MAX_CAPACITY,
            mailbox_policy: MailboxPolicy::Unbounded,
            expiry_budget: 256,
            request_budget: 256,
            wall_clock_check_interval: Duration::from_secs(10),
            stuck_after: Duration::from_secs(10),
            jitter_seed: None,
        }
    }
}
