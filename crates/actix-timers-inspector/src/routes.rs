//! The paths, documented in `docs/guide/inspector.md`.

use std::sync::Arc;

use actix_timers::integration::{ShortId, TimerWalk};
use actix_timers::{CancelOutcome, TimerId};
use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{Error, FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, ResponseError, Scope};
use serde::Serialize;
use serde_json::json;

use super::error::Rejection;
use super::hosts::AllowedHosts;
use super::page::page;
use super::query::{MAX_LIMIT, Query};
use super::timers::{Ids, MAX_OF_A_BUCKET, next_of};
use super::turns::Kind;
use super::unread::UnreadAnswers;
use super::{Inspected, Inspector};

/// The header that a cancel must have. A form cannot set it, and for a script of another site the browser first asks
/// the server.
pub(super) const CANCEL_HEADER: &str = "X-Actix-Timers";
pub(super) const CANCEL_VALUE: &str = "cancel";

pub(super) const READ: &str = "GET, HEAD";
pub(super) const READ_OR_CANCEL: &str = "GET, HEAD, DELETE";

/// The parameters of a list.
const LIST_PARAMETERS: [&str; 11] =
    ["timer", "key", "group", "actor", "message_type", "state", "level", "due_within", "due_after", "cursor", "limit"];

pub(super) type Answer = Result<HttpResponse, Rejection>;

/// The default headers of every response. Data must not be cached, framed, interpreted as another type, or loaded by a
/// page of another origin.
const HEADERS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("x-frame-options", "DENY"),
];

pub(super) fn under(path: &str, inspector: Inspector) -> Scope {
    // The check is in an inner scope, so that the type of the outer one is a plain `Scope`.
    let (hosts, unread) = (Arc::new(inspector.hosts.clone()), Arc::clone(&inspector.unread));
    let paths = web::scope("")
        .app_data(Data::new(inspector))
        .service(only(READ, readable("", show_page)))
        .service(only(READ, readable("/", show_page)))
        .service(only(READ, readable("/api/timer-actors", timer_actors)))
        .service(only(READ, readable("/api/wheel", wheel)))
        .service(only(READ, readable("/api/next", next)))
        .service(only(READ, readable("/api/bucket", bucket)))
        .service(only(READ, readable("/api/timers", list)))
        .service(only(READ_OR_CANCEL, readable("/api/timers/{id}", show).route(web::delete().to(cancel))));
    #[cfg(feature = "durable")]
    let paths = super::durable::add_paths(paths);
    let inner = paths
        .default_service(web::to(|| async { Answer::Err(Rejection::UnknownPath) }))
        .wrap(from_fn(move |request, next| guarded(Arc::clone(&hosts), Arc::clone(&unread), request, next)));
    // With a slash at its end the page would be served, but no data: actix-web appends the paths to it as it is.
    web::scope(path.trim_end_matches('/')).service(inner)
}

/// Rejects requests of other sites before any handler sees them, and sends answers in parts.
async fn guarded(
    hosts: Arc<AllowedHosts>,
    unread: Arc<UnreadAnswers>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let mut response = match hosts.check(request.request()) {
        Ok(()) => next.call(request).await?,
        Err(rejection) => request.into_response(rejection.error_response()),
    };
    for (name, value) in HEADERS {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        if !response.headers().contains_key(&name) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response.map_body(|_, body| unread.keep(body)))
}

/// Creates a resource that can be read.
pub(super) fn readable<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args, Output: Responder + 'static>,
    Args: FromRequest + 'static,
{
    web::resource(path).route(web::get().to(handler.clone())).route(web::head().to(handler))
}

/// Creates a resource that accepts these methods, and names them when it rejects others.
pub(super) fn only(methods: &'static str, resource: Resource) -> Resource {
    resource.default_service(web::to(move || async move { Answer::Err(Rejection::WrongMethod(methods)) }))
}

pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    HttpResponse::build(status).json(body)
}

pub(super) fn ok(body: &impl Serialize) -> Answer {
    Ok(answer(StatusCode::OK, body))
}

impl Inspector {
    /// Returns the form of ids: in full if they can be used to cancel.
    pub(super) const fn ids(&self) -> Ids {
        if self.allow_cancel { Ids::Full } else { Ids::Short }
    }

    /// Checks that a request may change timers.
    pub(super) fn check_change(&self, request: &HttpRequest) -> Result<(), Rejection> {
        if !self.allow_cancel {
            return Err(Rejection::CancelNotAllowed);
        }
        let header = request.headers().get(CANCEL_HEADER);
        if header.is_none_or(|value| value.as_bytes() != CANCEL_VALUE.as_bytes()) {
            return Err(Rejection::NoCancelHeader);
        }
        Ok(())
    }

    /// Returns the names of the durable timers.
    fn durable_names(&self) -> Vec<&str> {
        #[cfg(feature = "durable")]
        return self.durable.names();
        #[cfg(not(feature = "durable"))]
        Vec::new()
    }

    /// Returns the requested timer actor; the first by default.
    fn chosen(&self, query: &Query) -> Result<Inspected, Rejection> {
        let wanted = query.text("timer");
        let chosen = self.inspected().into_iter().find(|inspected| wanted.is_none_or(|name| name == inspected.name));
        chosen.ok_or_else(|| match wanted {
            Some(name) => Rejection::UnknownTimerActor(name.to_owned()),
            None => Rejection::NoTimerActor,
        })
    }
}

/// Returns the id in the path: the last segment with a name, since scopes around may have an `id`, too.
pub(super) fn id_in(request: &HttpRequest) -> &str {
    request.match_info().iter().last().map_or("", |(_, id)| id)
}

fn parsed(id: &str) -> Result<TimerId, Rejection> {
    id.parse().map_err(|error: actix_timers::ParseTimerIdError| Rejection::BadRequest(error.to_string()))
}

async fn show_page() -> HttpResponse {
    page()
}

async fn timer_actors(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    Query::parse(request.query_string(), &[])?;
    let all: Vec<_> = inspector.inspected().iter().map(Inspected::summary).collect();
    ok(&json!({
        "timer_actors": all,
        "durable": inspector.durable_names(),
        "cancel_allowed": inspector.allow_cancel,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn wheel(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer"])?;
    let inspected = inspector.chosen(&query)?;
    ok(&inspected.wheel(&inspector.turns.look(Kind::Short).await?).await?)
}

async fn next(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer", "all", "limit"])?;
    let (all, limit) = (query.wants_all()?, query.limit(MAX_LIMIT)?);
    let look = inspector.turns.look(Kind::Short).await?;
    let inspected = if all { inspector.inspected() } else { vec![inspector.chosen(&query)?] };
    ok(&next_of(&inspected, &look, limit, inspector.ids()).await?)
}

async fn bucket(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer", "level", "start_tick", "limit"])?;
    let (inspected, limit) = (inspector.chosen(&query)?, query.limit(MAX_OF_A_BUCKET)?);
    let level = usize::try_from(query.needed("level")?).unwrap_or(usize::MAX);
    let start = query.needed("start_tick")?;
    let walk = TimerWalk::to_bucket(level, start, limit);
    ok(&inspected.walk(&inspector.turns.look(Kind::Short).await?, walk, inspector.ids()).await?)
}

async fn list(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &LIST_PARAMETERS)?;
    let (inspected, limit) = (inspector.chosen(&query)?, query.limit(MAX_LIMIT)?);
    let (filter, cursor) = (query.filter()?, query.number("cursor")?.unwrap_or(0));
    ok(&inspected.list(&inspector.turns.look(Kind::Search).await?, filter, cursor, limit, inspector.ids()).await?)
}

async fn show(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    Query::parse(request.query_string(), &[])?;
    let text = id_in(&request);
    let short = ShortId::parse(text);
    let id = if short.is_none() { Some(parsed(text)?) } else { None };
    let all = inspector.inspected();
    let found = all.iter().find_map(|inspected| {
        let survey = &inspected.survey;
        let info = short.map_or_else(|| survey.get(id?), |short| survey.get_short(short))?;
        Some(inspected.found(info, inspector.ids()))
    });
    ok(&found.ok_or_else(|| Rejection::UnknownTimer(text.to_owned()))?)
}

async fn cancel(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    inspector.check_change(&request)?;
    Query::parse(request.query_string(), &[])?;
    let id = parsed(id_in(&request))?;
    let change = inspector.audit.change(&request, "cancel", id.to_string());
    let all = inspector.inspected();
    let mut outcomes = all.iter().map(|inspected| inspected.survey.cancel(id));
    let known = outcomes.find(|outcome| *outcome != CancelOutcome::NotFound);
    let outcome = known.ok_or_else(|| Rejection::UnknownTimer(id.to_string()))?;
    let body = json!({ "id": id, "outcome": outcome });
    inspector.audit.report(change, body["outcome"].as_str().unwrap_or_default());
    Ok(answer(if outcome.is_cancelled() { StatusCode::OK } else { StatusCode::CONFLICT }, &body))
}
