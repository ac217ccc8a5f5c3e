//! Events for `tracing`, with that feature. A panic of the subscriber, which is user code, is caught.

#[cfg(feature = "tracing")]
use actix_timers::integration::Shown;

#[cfg(feature = "tracing")]
use super::contain::contain;
use super::message::DecodeError;
use super::record::Record;

#[cfg(feature = "tracing")]
pub(super) fn undecodable(record: &Record, error: &DecodeError) {
    let _ = contain(|| {
        tracing::warn!(
            target: "actix_timers",
            id = tracing::field::display(record.id),
            route = &*record.route,
            message_type = &*record.message_type,
            version = record.message_version,
            error = tracing::field::display(Shown(error)),
            "set aside: the message of a durable timer cannot be read"
        );
    });
}

#[cfg(feature = "tracing")]
pub(super) fn route_without_recipient(route: &str) {
    let _ = contain(|| tracing::warn!(target: "actix_timers", route, "a route has no recipient: its messages wait"));
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn undecodable(_: &Record, _: &DecodeError) {}

#[cfg(not(feature = "tracing"))]
pub(super) const fn route_without_recipient(_: &str) {}
