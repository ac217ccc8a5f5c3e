//! Settings and start.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use actix::{Actor, Arbiter};
use actix_timers::Timers;

use crate::error::StartError;
use crate::expirations::Expirations;
use crate::keys::Key;
use crate::purgatory::Purgatory;

/// The settings of a [`Purgatory`]; created by [`Purgatory::builder`].
#[must_use = "nothing starts before `start`"]
pub struct PurgatoryBuilder<K> {
    settings: Settings,
    timers: Option<Timers>,
    keys: PhantomData<fn(K)>,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) capacity: usize,
    pub(crate) slack: Duration,
}

impl<K: Key> PurgatoryBuilder<K> {
    pub(crate) fn new() -> Self {
        let settings = Settings { name: "purgatory".to_owned(), capacity: 1_000_000, slack: Duration::ZERO };
        Self { settings, timers: None, keys: PhantomData }
    }

    /// Sets the name, the label `purgatory` of its metrics. Default: `purgatory`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Limits the number of waiting requests. Default: a million.
    pub const fn capacity(mut self, requests: usize) -> Self {
        self.settings.capacity = requests;
        self
    }

    /// Allows time-outs to be late by this time, so that many of them expire together: fewer wake-ups of the thread.
    /// Default: none.
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.settings.slack = slack;
        self
    }

    /// Sets the timer actor of the time-outs, and with it their clock. Default: that of the arbiter.
    pub fn timers(mut self, timers: &Timers) -> Self {
        self.timers = Some(timers.clone());
        self
    }

    /// Starts the purgatory. An actor on the arbiter of this thread receives the time-outs.
    ///
    /// If that arbiter or the timer actor stops before a time-out, the request ends as closed once the dead letter of the time-out
    /// is dropped: subscribers of dead letters must not keep it.
    ///
    /// # Errors
    /// [`StartError`] if no actix system runs on this thread, the arbiter has no timer actor, or the capacity is zero.
    pub fn start(self) -> Result<Purgatory<K>, StartError> {
        if self.settings.capacity == 0 {
            return Err(StartError::ZeroCapacity);
        }
        Arbiter::try_current().ok_or(StartError::NoSystem)?;
        let timers = self.timers.or_else(Timers::current).ok_or(StartError::NotInstalled)?;
        Ok(Purgatory::new(self.settings, timers, Expirations.start()))
    }
}

impl<K> fmt::Debug for PurgatoryBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PurgatoryBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
