//! Events for `tracing`, with that feature. A panic of the subscriber, which is user code, is caught.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

use std::time::Duration;

#[cfg(feature = "tracing")]
use actix_timers::integration::{LogLimit, Shown};

use crate::id::DurableId;
use crate::message::DecodeError;
use crate::store::{Record, StoreError};

macro_rules! event {
    ($level:ident, $($fields:tt)+) => {
        #[cfg(feature = "tracing")]
        let _ = actix_timers::integration::contain(|| tracing::$level!(target: "actix_timers", $($fields)+));
    };
}

/// Returns the span of a delivery.
#[cfg(feature = "tracing")]
pub(crate) fn delivery(record: &Record) -> tracing::Span {
    let span = actix_timers::integration::contain(|| {
        tracing::info_span!(
            target: "actix_timers",
            parent: None,
            "durable_delivery",
            id = %record.id,
            route = &*record.route,
            message_type = &*record.message_type,
            attempt = record.progress.attempt,
            repetition = record.progress.repetition,
            traceparent = record.headers.get("traceparent"),
        )
    });
    span.unwrap_or_else(|_| tracing::Span::none())
}

pub(crate) fn undecodable(record: &Record, error: &DecodeError) {
    event!(
        warn,
        id = %record.id,
        route = &*record.route,
        message_type = &*record.message_type,
        version = record.message_version,
        error = %Shown(error),
        "parked: the message of a durable timer cannot be read"
    );
}

pub(crate) fn damaged(id: DurableId) {
    event!(error, %id, "parked: the row of a durable timer is damaged");
}

pub(crate) fn route_without_recipient(route: &str) {
    event!(warn, route, "a route has no recipient: its messages wait");
}

pub(crate) fn route_pauses(route: &str, why: &str) {
    event!(error, route, why, "a route is paused until it is resumed");
}

pub(crate) fn store_cannot_write(error: &StoreError) {
    event!(error, error = %Shown(error), "the store of durable timers cannot write");
}

pub(crate) fn end_refused(id: DurableId, error: &StoreError) {
    event!(error, %id, error = %Shown(error), "the store refuses the end of a delivery, which is tried again");
}

pub(crate) fn store_writes_again() {
    event!(info, "the store of durable timers writes again");
}

pub(crate) fn store_cannot_be_read(error: &StoreError) {
    event!(error, error = %Shown(error), "the store of durable timers cannot be read");
}

pub(crate) fn delivery_lost(id: DurableId) {
    event!(warn, %id, "a durable timer was cancelled, or is another node's, while its handler runs");
}

pub(crate) fn log_is_held(time: Duration) {
    event!(warn, seconds = time.as_secs(), "a reader keeps the log of the store from beginning anew: it grows");
}

pub(crate) fn joined(released: u64, blamed: usize) {
    event!(info, released, blamed, "durable timers start");
}

/// Limits of the warnings about dead letters, by route.
#[derive(Default)]
pub(crate) struct DeadLetterLimits(#[cfg(feature = "tracing")] rustc_hash::FxHashMap<u16, LogLimit>);

/// Each dead letter is an event; warnings are limited.
pub(crate) fn dead_letter(
    limits: &mut DeadLetterLimits,
    now: Duration,
    timer: &str,
    route: u16,
    record: &Record,
    reason: &str,
) {
    #[cfg(feature = "tracing")]
    let suppressed = limits.0.entry(route).or_default().pass(now);
    let (attempt, route) = (record.progress.attempt, &*record.route);
    event!(debug, id = %record.id, route, attempt, reason, "durable dead letter");
    #[cfg(feature = "tracing")]
    if let Some(suppressed) = suppressed {
        event!(
            warn,
            id = %record.id,
            timer,
            route,
            message_type = &*record.message_type,
            attempt,
            reason,
            suppressed,
            "a durable message became a dead letter"
        );
    }
}
