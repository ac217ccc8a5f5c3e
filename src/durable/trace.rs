//! What durable timers say to `tracing`, with that feature.

use std::time::Duration;

use super::id::DurableId;
use super::message::DecodeError;
use super::record::Record;
#[cfg(feature = "tracing")]
use crate::shown::Shown;

#[cfg(feature = "tracing")]
pub(super) fn undecodable(record: &Record, error: &DecodeError) {
    tracing::warn!(
        target: "actix_timers",
        id = tracing::field::display(record.id),
        route = &*record.route,
        message_type = &*record.message_type,
        version = record.message_version,
        error = tracing::field::display(Shown(error)),
        "set aside: the message of a durable timer cannot be read"
    );
}

/// A handler has failed for good.
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "read by the log"))]
pub(super) struct Buried<'a> {
    /// The name of the durable timers.
    pub(super) timer: &'a str,
    pub(super) id: DurableId,
    pub(super) route: &'a str,
    pub(super) attempt: u32,
    pub(super) reason: &'a str,
}

/// Which dead letters of a route were told.
#[derive(Debug, Default)]
pub(super) struct Obituaries(#[cfg(feature = "tracing")] crate::actor::Limit);

#[cfg(feature = "tracing")]
impl Obituaries {
    pub(super) fn tell(&mut self, now: Duration, buried: &Buried<'_>) {
        let Buried { timer, id, route, attempt, reason } = *buried;
        let id = tracing::field::display(id);
        tracing::debug!(target: "actix_timers", timer, id, route, attempt, reason, "durable dead letter");
        let Some(suppressed) = self.0.pass(now) else { return };
        tracing::warn!(
            target: "actix_timers",
            timer,
            id,
            route,
            attempt,
            reason,
            suppressed,
            "a durable message became a dead letter"
        );
    }
}

#[cfg(feature = "tracing")]
pub(super) fn route_without_recipient(route: &str) {
    tracing::warn!(target: "actix_timers", route, "nobody is there to get the messages of a route: they wait");
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn undecodable(_: &Record, _: &DecodeError) {}

#[cfg(not(feature = "tracing"))]
impl Obituaries {
    pub(super) const fn tell(&mut self, _: Duration, _: &Buried<'_>) {
        let Self() = self;
    }
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn route_without_recipient(_: &str) {}
