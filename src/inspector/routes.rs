//! Which path does what. What is documented of them: `docs/inspector.md`.

use actix_web::http::StatusCode;
use actix_web::web::{self, Data};
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, Scope};
use serde::Serialize;
use serde_json::json;

use super::error::Refusal;
use super::page::page;
use super::query::{MOST, Query};
use super::timers::MOST_OF_A_BUCKET;
use super::{Inspected, Inspector};
use crate::{CancelOutcome, TimerId};

/// What a cancel has to bring along. A form cannot, and a script of another site has to ask first.
pub(super) const CANCEL_HEADER: &str = "X-Actix-Timers";
pub(super) const CANCEL_VALUE: &str = "cancel";

const READ: &str = "GET, HEAD";
const READ_OR_CANCEL: &str = "GET, HEAD, DELETE";

/// What a list can be asked for.
const LIST_PARAMETERS: [&str; 11] =
    ["timer", "key", "group", "actor", "message_type", "state", "level", "due_within", "due_after", "cursor", "limit"];

type Answer = Result<HttpResponse, Refusal>;

pub(super) fn under(path: &str, inspector: Inspector) -> Scope {
    web::scope(path)
        .app_data(Data::new(inspector))
        .service(only(READ, readable("", show_page)))
        .service(only(READ, readable("/", show_page)))
        .service(only(READ, readable("/api/timer-actors", timer_actors)))
        .service(only(READ, readable("/api/wheel", wheel)))
        .service(only(READ, readable("/api/next", next)))
        .service(only(READ, readable("/api/bucket", bucket)))
        .service(only(READ, readable("/api/timers", list)))
        .service(only(READ_OR_CANCEL, readable("/api/timers/{id}", show).route(web::delete().to(cancel))))
        .default_service(web::to(|| async { Answer::Err(Refusal::UnknownPath) }))
}

/// A resource that can be read.
fn readable<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args, Output: Responder + 'static>,
    Args: FromRequest + 'static,
{
    web::resource(path).route(web::get().to(handler.clone())).route(web::head().to(handler))
}

/// A resource that takes these methods, and says so to others.
fn only(methods: &'static str, resource: Resource) -> Resource {
    resource.default_service(web::to(move || async move { Answer::Err(Refusal::WrongMethod(methods)) }))
}

fn answer(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header(("Cache-Control", "no-store"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .json(body)
}

fn ok(body: &impl Serialize) -> Answer {
    Ok(answer(StatusCode::OK, body))
}

impl Inspector {
    /// The timer actor that is asked for; the first if none is.
    fn chosen(&self, query: &Query) -> Result<&Inspected, Refusal> {
        let wanted = query.text("timer");
        let chosen = self.inspected.iter().find(|inspected| wanted.is_none_or(|name| name == inspected.name));
        chosen.ok_or_else(|| Refusal::UnknownTimerActor(wanted.unwrap_or_default().to_owned()))
    }
}

/// The timer that the path names.
fn id_of(request: &HttpRequest) -> Result<TimerId, Refusal> {
    let text = request.match_info().get("id").unwrap_or_default();
    text.parse().map_err(|error: crate::ParseTimerIdError| Refusal::BadRequest(error.to_string()))
}

async fn show_page() -> HttpResponse {
    page()
}

async fn timer_actors(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    Query::parse(request.query_string(), &[])?;
    let all: Vec<_> = inspector.inspected.iter().map(Inspected::summary).collect();
    ok(&json!({ "timer_actors": all, "cancel_allowed": inspector.allow_cancel, "version": env!("CARGO_PKG_VERSION") }))
}

async fn wheel(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer"])?;
    let inspected = inspector.chosen(&query)?;
    let _turn = inspector.turns.take().await?;
    ok(&inspected.wheel().await)
}

async fn next(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer", "limit"])?;
    let (inspected, limit) = (inspector.chosen(&query)?, query.limit(MOST)?);
    let _turn = inspector.turns.take().await?;
    ok(&inspected.next(limit).await)
}

async fn bucket(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["timer", "level", "start_tick", "limit"])?;
    let (inspected, limit) = (inspector.chosen(&query)?, query.limit(MOST_OF_A_BUCKET)?);
    let level = usize::try_from(query.needed("level")?).unwrap_or(usize::MAX);
    let start = query.needed("start_tick")?;
    let _turn = inspector.turns.take().await?;
    ok(&inspected.bucket(level, start, limit).await)
}

async fn list(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &LIST_PARAMETERS)?;
    let (inspected, limit) = (inspector.chosen(&query)?, query.limit(MOST)?);
    let (filter, cursor) = (query.filter()?, query.number("cursor")?.unwrap_or(0));
    let _turn = inspector.turns.take().await?;
    ok(&inspected.list(filter, cursor, limit).await)
}

async fn show(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    Query::parse(request.query_string(), &[])?;
    let id = id_of(&request)?;
    match inspector.inspected.iter().find_map(|inspected| inspected.find(id)) {
        Some(found) => ok(&found),
        None => Err(Refusal::UnknownTimer(id.to_string())),
    }
}

async fn cancel(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    if !inspector.allow_cancel {
        return Err(Refusal::CancelNotAllowed);
    }
    let header = request.headers().get(CANCEL_HEADER);
    if header.is_none_or(|value| value.as_bytes() != CANCEL_VALUE.as_bytes()) {
        return Err(Refusal::NoCancelHeader);
    }
    Query::parse(request.query_string(), &[])?;
    let id = id_of(&request)?;
    let outcomes = inspector.inspected.iter().map(|inspected| inspected.timers.service().cancel(id));
    let known = outcomes.into_iter().find(|outcome| *outcome != CancelOutcome::NotFound);
    match known {
        None => Err(Refusal::UnknownTimer(id.to_string())),
        Some(CancelOutcome::Cancelled) => ok(&json!({ "id": id, "outcome": CancelOutcome::Cancelled })),
        Some(outcome) => Ok(answer(StatusCode::CONFLICT, &json!({ "id": id, "outcome": outcome }))),
    }
}
