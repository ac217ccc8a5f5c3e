//! Responses to rejected requests.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use super::routes::{CANCEL_HEADER, CANCEL_VALUE};

/// The reason for a rejection. All are sent as JSON with `error`, one word for programs, and `message`, a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("{0}")]
    BadRequest(String),
    #[error("no timer actor has the name `{0}` here: see `api/timer-actors`")]
    UnknownTimerActor(String),
    #[error("no timer actor runs here: the first timer of an arbiter starts one")]
    NoTimerActor,
    #[error(
        "no timer actor has a pending timer with the id {0}: it was delivered, cancelled or returned, it is durable (see \
         `api/durable/timers/ID`), or it never existed"
    )]
    UnknownTimer(String),
    #[cfg(feature = "durable")]
    #[error("no durable timers have the name `{0}` here: see `api/durable`")]
    UnknownDurable(String),
    #[cfg(feature = "durable")]
    #[error("no durable timer has the id {0}: it is complete, was cancelled or discarded, or it never existed")]
    UnknownDurableTimer(String),
    #[cfg(feature = "durable")]
    #[error("{now} timers or more match now, and {confirmed} are confirmed: narrow the filter, or count them again")]
    MoreThanConfirmed { confirmed: u64, now: u64 },
    #[cfg(feature = "durable")]
    #[error("the store cannot answer: {0}")]
    Store(String),
    #[error(
        "nothing is at this path: see `api/timer-actors`, `api/wheel`, `api/next`, `api/bucket` and `api/timers`, and of durable \
         timers `api/durable` and `api/durable/timers`"
    )]
    UnknownPath,
    #[error("this path takes {0}")]
    WrongMethod(&'static str),
    #[error("cancelling is not switched on here: the application does that with `Inspector::allow_cancel`")]
    CancelNotAllowed,
    #[error("a cancel needs the header `{CANCEL_HEADER}: {CANCEL_VALUE}`, which other sites cannot send")]
    NoCancelHeader,
    #[error("a request names the host it is for, once and without a user: send a `Host` header such as `localhost`")]
    NoHost,
    #[error(
        "the host `{0}` is not allowed here, since a page of another site may have its name point to this server: the \
         application allows a host with `Inspector::allow_host`"
    )]
    HostNotAllowed(String),
    #[error(
        "the origin `{0}` may not change anything here: behind a proxy the application allows the host of its page, with \
         its port unless that is the default one, with `Inspector::allow_host`"
    )]
    OriginNotAllowed(String),
    #[error(
        "another site sent this request, the browser reports (`Sec-Fetch-Site`): behind a proxy the application allows \
         the host of its page with `Inspector::allow_host`"
    )]
    OtherSite,
    #[error("too many requests are being served: try again in a moment")]
    Busy,
}

#[derive(Serialize)]
struct Body {
    error: &'static str,
    message: String,
}

impl Rejection {
    const fn word(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::UnknownTimerActor(_) | Self::NoTimerActor => "unknown_timer_actor",
            Self::UnknownTimer(_) => "unknown_timer",
            #[cfg(feature = "durable")]
            Self::UnknownDurable(_) => "unknown_durable",
            #[cfg(feature = "durable")]
            Self::UnknownDurableTimer(_) => "unknown_timer",
            #[cfg(feature = "durable")]
            Self::MoreThanConfirmed { .. } => "more_than_confirmed",
            #[cfg(feature = "durable")]
            Self::Store(_) => "store_failed",
            Self::UnknownPath => "unknown_path",
            Self::WrongMethod(_) => "wrong_method",
            Self::CancelNotAllowed => "cancel_not_allowed",
            Self::NoCancelHeader => "no_cancel_header",
            Self::NoHost => "bad_request",
            Self::HostNotAllowed(_) => "host_not_allowed",
            Self::OriginNotAllowed(_) | Self::OtherSite => "origin_not_allowed",
            Self::Busy => "busy",
        }
    }
}

impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::NoHost => StatusCode::BAD_REQUEST,
            Self::UnknownTimerActor(_) | Self::NoTimerActor | Self::UnknownTimer(_) | Self::UnknownPath => {
                StatusCode::NOT_FOUND
            }
            #[cfg(feature = "durable")]
            Self::UnknownDurable(_) | Self::UnknownDurableTimer(_) => StatusCode::NOT_FOUND,
            #[cfg(feature = "durable")]
            Self::MoreThanConfirmed { .. } => StatusCode::CONFLICT,
            #[cfg(feature = "durable")]
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::CancelNotAllowed
            | Self::NoCancelHeader
            | Self::HostNotAllowed(_)
            | Self::OriginNotAllowed(_)
            | Self::OtherSite => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        match self {
            Self::WrongMethod(allowed) => _ = response.insert_header((ALLOW, *allowed)),
            Self::Busy => _ = response.insert_header((RETRY_AFTER, "1")),
            _ => {}
        }
        response.json(Body { error: self.word(), message: self.to_string() })
    }
}
