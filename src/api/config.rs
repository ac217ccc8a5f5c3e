//! The settings of a timer actor as a value, to be read from a file.

use std::time::Duration;

use crate::api::builder::TimerActorBuilder;
#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::mailbox_policy::MailboxPolicy;

/// The settings of a timer actor as a value: all settings of [`TimerActorBuilder`] except the clock.
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
    /// See [`TimerActorBuilder::name`].
    pub name: Option<String>,
    /// See [`TimerActorBuilder::tick`].
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub tick: Duration,
    /// See [`TimerActorBuilder::wheel_size`].
    pub wheel_size: usize,
    /// See [`TimerActorBuilder::capacity`].
    pub capacity: usize,
    /// See [`TimerActorBuilder::mailbox_policy`].
    pub mailbox_policy: MailboxPolicy,
    /// See [`TimerActorBuilder::expiry_budget`].
    pub expiry_budget: usize,
    /// See [`TimerActorBuilder::request_budget`].
    pub request_budget: usize,
    /// See [`TimerActorBuilder::wall_clock_check_interval`].
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub wall_clock_check_interval: Duration,
    /// See [`TimerActorBuilder::stuck_after`].
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub stuck_after: Duration,
    /// See [`TimerActorBuilder::jitter_seed`].
    pub jitter_seed: Option<u64>,
}

impl Default for TimerActorConfig {
    fn default() -> Self {
        let builder = TimerActorBuilder::default();
        Self {
            name: builder.name,
            tick: builder.tick,
            wheel_size: builder.wheel_size,
            capacity: builder.capacity,
            mailbox_policy: builder.mailbox_policy,
            expiry_budget: builder.expiry_budget,
            request_budget: builder.request_budget,
            wall_clock_check_interval: builder.wall_clock_check_interval,
            stuck_after: builder.stuck_after,
            jitter_seed: builder.jitter_seed,
        }
    }
}

impl From<TimerActorConfig> for TimerActorBuilder {
    fn from(config: TimerActorConfig) -> Self {
        let mut builder = Self::default()
            .tick(config.tick)
            .wheel_size(config.wheel_size)
            .capacity(config.capacity)
            .mailbox_policy(config.mailbox_policy)
            .expiry_budget(config.expiry_budget)
            .request_budget(config.request_budget)
            .wall_clock_check_interval(config.wall_clock_check_interval)
            .stuck_after(config.stuck_after);
        builder.name = config.name;
        builder.jitter_seed = config.jitter_seed;
        builder
    }
}
