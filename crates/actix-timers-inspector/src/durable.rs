//! Durable timers in the JSON.
//!
//! A store answers one request at a time, and each examines a bounded number of timers. So one request of the inspector
//! at a time is under way in each store, and a bounded number waits. They take no part in the looks at timer actors: a
//! store that is slow, or hangs, delays neither these nor other stores.

use std::ops::Bound;
use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use actix_timers::CancelOutcome;
use actix_timers_durable::{
    AttemptError, DueTime, DurableError, DurableFilter, DurableId, DurableInfo, DurableState, DurableTimers, Pause,
    RepeatMode, StoreError, StoredRepeat,
};
use actix_web::http::{Method, StatusCode};
use actix_web::rt::spawn;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, Scope};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

use super::Inspector;
use super::cursors::CursorKey;
use super::error::Rejection;
use super::names::Names;
use super::query::{MAX_LIMIT, Query, bad};
use super::routes::{Answer, READ, READ_OR_CANCEL, answer, id_in, ok, only, readable};
use super::timers::Ids;
use super::wheel::unix_seconds;

/// Maximum number of requests to one store that wait or are answered.
const MAX_REQUESTS: usize = 256;

const CHANGE: &str = "POST, DELETE";

/// The parameters of a filter.
const FILTER: [&str; 10] = [
    "durable",
    "state",
    "route",
    "message_type",
    "key",
    "key_prefix",
    "header_name",
    "header_value",
    "due_within",
    "due_after",
];
/// The timers that a change by filter makes in one commit.
const CHANGED_TOGETHER: usize = 500;

/// The durable timers of an inspector.
#[derive(Debug, Clone, Default)]
pub(super) struct Stores {
    stores: Vec<Inspected>,
    names: Names,
    cursors: CursorKey,
}

/// Durable timers with a unique name.
#[derive(Debug, Clone)]
struct Inspected {
    name: String,
    timers: DurableTimers,
    queue: Arc<Queue>,
}

/// The requests to a store.
#[derive(Debug)]
struct Queue {
    /// One for each request that waits or is answered.
    places: Semaphore,
    /// Held by the request that is answered.
    turn: Mutex<()>,
}

impl Inspected {
    /// Asks the store once it has answered earlier requests.
    ///
    /// # Errors
    /// [`Rejection::Busy`] if too many requests wait.
    async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&DurableTimers) -> Result<T, DurableError>,
    ) -> Result<Result<T, DurableError>, Rejection> {
        let _place = self.queue.places.try_acquire().map_err(|_| Rejection::Busy)?;
        let _turn = self.queue.turn.lock().await;
        Ok(ask(&self.timers).await)
    }
}

impl Stores {
    pub(super) fn add(&mut self, timers: &DurableTimers) {
        let name = self.names.take(timers.name());
        let queue = Arc::new(Queue { places: Semaphore::new(MAX_REQUESTS), turn: Mutex::default() });
        self.stores.push(Inspected { name, timers: timers.clone(), queue });
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.stores.iter().map(|store| store.name.as_str()).collect()
    }

    /// Returns the requested durable timers; the first by default.
    fn chosen(&self, query: &Query) -> Result<&Inspected, Rejection> {
        let wanted = query.text("durable");
        let chosen = self.stores.iter().find(|store| wanted.is_none_or(|name| name == store.name));
        chosen.ok_or_else(|| Rejection::UnknownDurable(wanted.unwrap_or_default().to_owned()))
    }

    /// Returns the durable timers that a request is about: the requested ones; all by default.
    fn asked(&self, query: &Query) -> Result<&[Inspected], Rejection> {
        match query.text("durable") {
            Some(_) => self.chosen(query).map(slice::from_ref),
            None => Ok(&self.stores),
        }
    }
}

/// Asks one store after the other. Returns the first answer; a failure only if none has one.
async fn first<T>(
    stores: &[Inspected],
    ask: impl AsyncFn(&DurableTimers) -> Result<Option<T>, DurableError>,
) -> Result<Option<(&Inspected, T)>, Rejection> {
    let mut failure = None;
    for store in stores {
        match store.ask(&ask).await.and_then(|answer| answer.map_err(failed)) {
            Ok(Some(answer)) => return Ok(Some((store, answer))),
            Ok(None) => {}
            // The outcome of a store that failed may not be known.
            Err(rejection) if !matches!(failure, Some(Rejection::Store(_))) => failure = Some(rejection),
            Err(_) => {}
        }
    }
    failure.map_or(Ok(None), Err)
}

fn failed(error: DurableError) -> Rejection {
    Rejection::Store(error.to_string())
}

/// A durable timer.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    state: &'static str,
    due_in_seconds: f64,
    wall_seconds: f64,
    route: String,
    message_type: String,
    message_version: u32,
    message_bytes: usize,
    key: Option<String>,
    attempt: u32,
    repetition: u64,
    repeats: Option<Value>,
    reason: Option<String>,
    dead_since_seconds: Option<f64>,
    finished: Option<Value>,
}

/// The words for states, in the order of the page.
const STATES: [&str; 6] = ["pending", "retry", "in_flight", "parked", "dead", "finished"];

fn state_of(info: &DurableInfo) -> &'static str {
    match info.state {
        DurableState::Pending if info.progress.attempt > 1 => "retry",
        DurableState::InFlight => "in_flight",
        DurableState::Parked { .. } => "parked",
        DurableState::Dead { .. } => "dead",
        DurableState::Finished(_) => "finished",
        _ => "pending",
    }
}

impl Row {
    fn new(info: DurableInfo, now: SystemTime, ids: Ids) -> Self {
        let state = state_of(&info);
        let wall_seconds = unix_seconds(info.due().to_system_time());
        let (reason, since) = match &info.state {
            DurableState::Dead { reason, since } => (Some(reason.to_string()), Some(*since)),
            DurableState::Parked { reason } => (Some(reason.to_string()), None),
            DurableState::Finished(end) => (end.errors.last().map(|error| error.reason.clone()), None),
            _ => (None, None),
        };
        let seconds = |time: DueTime| unix_seconds(time.to_system_time());
        let finished = if let DurableState::Finished(end) = &info.state { Some(end) } else { None };
        let finished = finished.map(|end| {
            let error = |error: &AttemptError| {
                let AttemptError { at, attempt, reason, .. } = error;
                json!({ "seconds": seconds(*at), "attempt": attempt, "reason": reason })
            };
            json!({
                "seconds": seconds(end.at),
                "took_seconds": end.took.as_secs_f64(),
                "outcome": if end.is_dead { "dead" } else { "complete" },
                "result": end.result.as_deref(),
                "errors": end.errors.iter().map(error).collect::<Vec<_>>(),
            })
        });
        Self {
            id: shown(info.id, ids),
            state,
            due_in_seconds: wall_seconds - unix_seconds(now),
            wall_seconds,
            route: info.route.to_string(),
            message_type: info.message_type.to_string(),
            message_version: info.message_version,
            message_bytes: info.payload.len(),
            key: info.key,
            attempt: info.progress.attempt,
            repetition: info.progress.repetition,
            repeats: info.repeat.map(repeats),
            reason,
            dead_since_seconds: since.map(seconds),
            finished,
        }
    }
}

fn repeats(repeat: StoredRepeat) -> Value {
    let mut repeats = match repeat.mode {
        RepeatMode::FixedRate { period, .. } => json!({ "period_seconds": period.as_secs_f64() }),
        RepeatMode::FixedDelay { delay, .. } => json!({ "delay_seconds": delay.as_secs_f64() }),
        RepeatMode::Cron { expression, zone } => json!({ "cron": expression, "time_zone": zone }),
        _ => json!({}),
    };
    if let Some(jitter) = repeat.jitter {
        repeats["jitter_seconds"] = json!(jitter.as_secs_f64());
    }
    repeats
}

/// Writes an id; without its last group where it must not be enough to cancel.
fn shown(id: DurableId, ids: Ids) -> String {
    let mut text = id.to_string();
    if matches!(ids, Ids::Short) {
        text.truncate(text.rfind('-').unwrap_or_default());
    }
    text
}

fn parsed(id: &str) -> Result<DurableId, Rejection> {
    id.parse().map_err(|error: actix_timers_durable::ParseDurableIdError| bad(error.to_string()))
}

/// Returns the filter for the parameters. The store knows no states below its parts; [`state_of`] does.
fn filter(query: &Query, now: SystemTime) -> Result<(DurableFilter, Option<&str>), Rejection> {
    let state = query.text("state");
    if state.is_some_and(|state| !STATES.contains(&state)) {
        return Err(bad(format!("`state` is one of {}", STATES.join(", "))));
    }
    let mut filter = match state {
        Some("dead") => DurableFilter::dead(),
        Some("parked") => DurableFilter::parked(),
        Some("finished") => DurableFilter::past(),
        _ => DurableFilter::new(),
    };
    if let Some(route) = query.text("route") {
        filter = filter.route(route);
    }
    if let Some(message_type) = query.text("message_type") {
        filter = filter.message_type(message_type);
    }
    if let Some(key) = query.text("key") {
        filter = filter.key(key);
    }
    if let Some(prefix) = query.text("key_prefix") {
        filter = filter.key_prefix(prefix);
    }
    if let Some(name) = query.text("header_name") {
        filter = filter.header(name, query.text("header_value").unwrap_or_default());
    } else if query.text("header_value").is_some() {
        return Err(bad("`header_name` is missing".to_owned()));
    }
    let at = |name| {
        let Some(time) = query.seconds(name)? else { return Ok(Bound::Unbounded) };
        now.checked_add(time).map(Bound::Included).ok_or_else(|| bad(format!("`{name}` is beyond the calendar")))
    };
    Ok((filter.due((at("due_after")?, at("due_within")?)), state))
}

/// Adds the paths of durable timers.
pub(super) fn add_paths(scope: Scope) -> Scope {
    let letter =
        web::resource("/api/durable/dead-letters/{id}").route(web::post().to(requeue)).route(web::delete().to(discard));
    let letters = web::resource("/api/durable/dead-letters")
        .route(web::post().to(requeue_all))
        .route(web::delete().to(discard_all));
    let pauses = web::resource("/api/durable/pauses").route(web::post().to(pause)).route(web::delete().to(pause));
    scope
        .service(only(READ, readable("/api/durable", stores)))
        .service(only(READ, readable("/api/durable/count", count)))
        .service(only(READ_OR_CANCEL, readable("/api/durable/timers", list).route(web::delete().to(cancel_all))))
        .service(only(CHANGE, letters))
        .service(only(READ_OR_CANCEL, readable("/api/durable/timers/{id}", show).route(web::delete().to(cancel))))
        .service(only(CHANGE, letter))
        .service(only(CHANGE, pauses))
}

async fn stores(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["durable"])?;
    let mut all = Vec::new();
    for store in inspector.durable.asked(&query)? {
        let asked = store.ask(async |timers| Ok((timers.counts().await?, timers.pauses().await?))).await?;
        let (state, counts, pauses) = match asked {
            Ok((counts, pauses)) => ("open", Some(counts), pauses.iter().map(paused).collect::<Vec<_>>()),
            Err(error) => (state_after(&error), None, vec![]),
        };
        all.push(json!({
            "durable": store.name,
            "state": state,
            "pending": counts.map(|counts| counts.pending),
            "parked": counts.map(|counts| counts.parked),
            "dead_letters": counts.map(|counts| counts.dead),
            "is_limited": counts.is_some_and(|counts| counts.is_limited),
            "pauses": pauses,
        }));
    }
    ok(&json!({ "durable": all }))
}

/// Returns the state of a store that cannot be read.
fn state_after(error: &DurableError) -> &'static str {
    match error {
        DurableError::Closed => "closed",
        DurableError::Store(error) if !matches!(**error, StoreError::Failed(_)) => "unavailable",
        _ => "failed",
    }
}

fn paused(pause: &Pause) -> Value {
    let (kind, name) = pause.target.row().unwrap_or(("timer", ""));
    let until = pause.until.map(|until| unix_seconds(until.to_system_time()));
    json!({ "kind": kind, "name": name, "until_seconds": until, "who": pause.who.as_deref(), "why": pause.why.as_deref() })
}

/// Pauses a route, a node or a timer, or ends that.
async fn pause(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    inspector.check_change(&request)?;
    let query = Query::parse(request.query_string(), &["durable", "kind", "name", "why"])?;
    let (kind, name) = (query.text("kind").unwrap_or_default(), query.text("name").unwrap_or_default());
    let pause = match kind {
        "route" => Pause::route(name),
        "node" => Pause::node(name),
        "timer" => Pause::timer(parsed(name)?),
        _ => return Err(bad("`kind` is route, node or timer".to_owned())),
    };
    let pause = pause.by(inspector.audit.user(&request).unwrap_or_else(|| "inspector".to_owned()));
    let pause = query.text("why").into_iter().fold(pause, Pause::because);
    let (ends, store) = (request.method() == Method::DELETE, inspector.durable.chosen(&query)?.clone());
    let (action, target) = (if ends { "resume" } else { "pause" }, format!("{kind} {name} in {}", store.name));
    let made = async move {
        let change = async |timers: &DurableTimers| {
            if ends { timers.resume(&pause.target).await } else { timers.pause(pause.clone()).await }
        };
        match store.ask(change).await? {
            // Of the timer of a pause, since others are errors.
            Ok(false) if !ends => Ok(None),
            Ok(had) => Ok(Some(json!(if !ends {
                "paused"
            } else if had {
                "resumed"
            } else {
                "not_paused"
            }))),
            Err(error @ (DurableError::UnknownRoute { .. } | DurableError::UnknownNode { .. })) => {
                Err(bad(error.to_string()))
            }
            Err(error) => Err(failed(error)),
        }
    };
    match audited(inspector, &request, action, target, made).await? {
        Some(outcome) => ok(&json!({ "outcome": outcome })),
        None => Err(Rejection::UnknownDurableTimer(name.to_owned())),
    }
}

async fn list(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &[&FILTER[..], &["cursor", "limit"]].concat())?;
    let stores = &inspector.durable;
    let (store, limit) = (stores.chosen(&query)?, query.limit(MAX_LIMIT)?);
    let now = store.timers.wall();
    let (mut filter, state) = filter(&query, now)?;
    if let Some(cursor) = query.text("cursor") {
        let cursor = stores.cursors.cursor_of(cursor);
        let wanted = || bad("`cursor` is the `next` of an earlier part, from this inspector".to_owned());
        filter = filter.after(cursor.ok_or_else(wanted)?);
    }
    let filter = filter.limit(limit);
    let page = store.ask(async |timers| timers.list(filter).await).await?.map_err(failed)?;
    let matching = page.timers.into_iter().filter(|info| state.is_none_or(|state| state_of(info) == state));
    let rows: Vec<Row> = matching.map(|info| Row::new(info, now, inspector.ids())).collect();
    let next = page.next.map(|next| stores.cursors.text_of(next));
    ok(&json!({ "durable": store.name, "timers": rows, "next": next, "damaged": page.damaged }))
}

/// A durable timer with the name of its durable timers.
#[derive(Debug, Serialize)]
struct Found<'a> {
    durable: &'a str,
    #[serde(flatten)]
    row: Row,
}

async fn show(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &["durable"])?;
    let (stores, id) = (inspector.durable.asked(&query)?, parsed(id_in(&request))?);
    match first(stores, async |timers| timers.get(id).await).await? {
        Some((store, info)) => {
            let row = Row::new(info, store.timers.wall(), inspector.ids());
            ok(&Found { durable: &store.name, row })
        }
        None => Err(Rejection::UnknownDurableTimer(id.to_string())),
    }
}

async fn count(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let query = Query::parse(request.query_string(), &FILTER)?;
    let store = inspector.durable.chosen(&query)?;
    let filter = whole_filter(&query, store, &["", "parked", "dead"])?;
    let (count, is_limited) = counted(store, filter).await?;
    ok(&json!({ "durable": store.name, "count": count, "is_limited": is_limited }))
}

/// Returns the number of matching timers, and whether there may be more.
async fn counted(store: &Inspected, filter: DurableFilter) -> Result<(u64, bool), Rejection> {
    let counts = store.ask(async |timers| timers.count_matching(filter).await).await?.map_err(failed)?;
    Ok((counts.pending + counts.parked + counts.dead, counts.is_limited))
}

/// Returns the filter for all timers of one of these states: those that a store changes together.
fn whole_filter(query: &Query, store: &Inspected, states: &[&str]) -> Result<DurableFilter, Rejection> {
    let (filter, state) = filter(query, store.timers.wall())?;
    if !states.contains(&state.unwrap_or_default()) {
        return Err(bad(format!("`state` is one of `{}` here", states.join("`, `"))));
    }
    Ok(filter.limit(CHANGED_TOGETHER))
}

async fn cancel(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, id| {
        let outcome = timers.cancel(id).await?;
        Ok((outcome != CancelOutcome::NotFound).then_some(json!(outcome)))
    };
    change(inspector, &request, "cancel", ask).await
}

async fn requeue(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, id| {
        if timers.requeue(id).await? {
            return Ok(Some(json!("requeued")));
        }
        let left = timers.get(id).await?;
        let is_dead = |info: DurableInfo| matches!(info.state, DurableState::Dead { .. });
        Ok(left.map(|info| json!(if is_dead(info) { "key_in_use" } else { "still_pending" })))
    };
    change(inspector, &request, "requeue", ask).await
}

async fn discard(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, id| Ok(timers.discard(id).await?.then_some(json!("discarded")));
    change(inspector, &request, "discard", ask).await
}

/// Changes the timer in the path, if changes are allowed.
async fn change(
    inspector: Data<Inspector>,
    request: &HttpRequest,
    action: &'static str,
    ask: impl AsyncFn(&DurableTimers, DurableId) -> Result<Option<Value>, DurableError> + 'static,
) -> Answer {
    inspector.check_change(request)?;
    let query = Query::parse(request.query_string(), &["durable"])?;
    let id = parsed(id_in(request))?;
    let stores = inspector.durable.asked(&query)?.to_vec();
    let made =
        async move { Ok(first(&stores, async |timers| ask(timers, id).await).await?.map(|(_, outcome)| outcome)) };
    let Some(outcome) = audited(inspector, request, action, id.to_string(), made).await? else {
        return Err(Rejection::UnknownDurableTimer(id.to_string()));
    };
    let is_made = matches!(outcome.as_str(), Some("cancelled" | "requeued" | "discarded"));
    let status = if is_made { StatusCode::OK } else { StatusCode::CONFLICT };
    Ok(answer(status, &json!({ "id": id, "outcome": outcome })))
}

async fn cancel_all(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, filter| {
        let done = timers.cancel_all(filter).await?;
        Ok(json!({ "cancelled": done.cancelled, "in_progress": done.in_progress, "busy": done.busy }))
    };
    change_all(inspector, &request, "cancel", &["", "parked"], ask).await
}

async fn requeue_all(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, filter| Ok(json!({ "requeued": timers.requeue_all(filter).await? }));
    change_all(inspector, &request, "requeue", &["dead"], ask).await
}

async fn discard_all(inspector: Data<Inspector>, request: HttpRequest) -> Answer {
    let ask = async |timers: &DurableTimers, filter| Ok(json!({ "discarded": timers.discard_all(filter).await? }));
    change_all(inspector, &request, "discard", &["dead"], ask).await
}

/// Changes the timers of a filter, at most as many as the visitor has confirmed, if changes are allowed and no more are counted.
/// Other requests to the store need not wait for it.
async fn change_all(
    inspector: Data<Inspector>,
    request: &HttpRequest,
    action: &'static str,
    states: &[&str],
    ask: impl AsyncFnOnce(&DurableTimers, DurableFilter) -> Result<Value, DurableError> + 'static,
) -> Answer {
    inspector.check_change(request)?;
    let query = Query::parse(request.query_string(), &[&FILTER[..], &["count"]].concat())?;
    let store = inspector.durable.chosen(&query)?.clone();
    let (filter, confirmed) = (whole_filter(&query, &store, states)?, query.needed("count")?);
    let (now, _) = counted(&store, filter.clone()).await?;
    if now > confirmed {
        return Err(Rejection::MoreThanConfirmed { confirmed, now });
    }
    // Others may match since the count, or beyond its limit.
    let filter = filter.at_most(usize::try_from(confirmed).unwrap_or(usize::MAX));
    let name = store.name.clone();
    let made = async move { ask(&store.timers, filter).await.map(Some).map_err(failed) };
    let target = format!("{} in {name}", request.query_string());
    let outcome = audited(inspector, request, action, target, made).await?;
    ok(&json!({ "durable": name, "outcome": outcome }))
}

/// Makes a change in a task of its own, which a client that leaves does not end, and reports it.
async fn audited(
    inspector: Data<Inspector>,
    request: &HttpRequest,
    action: &'static str,
    target: String,
    made: impl Future<Output = Result<Option<Value>, Rejection>> + 'static,
) -> Result<Option<Value>, Rejection> {
    let change = inspector.audit.change(request, action, target);
    let task = spawn(async move {
        let made = made.await;
        match &made {
            Ok(Some(Value::String(word))) => inspector.audit.report(change, word),
            Ok(Some(outcome)) => inspector.audit.report(change, outcome),
            // Its outcome may not be known. Every other rejection comes before a change.
            Err(rejection @ Rejection::Store(_)) => {
                inspector.audit.report(change, format_args!("failed: {rejection}"));
            }
            Ok(None) | Err(_) => {}
        }
        made
    });
    task.await.unwrap_or_else(|error| Err(Rejection::Store(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_cannot_be_read_for_now_has_not_failed() {
        for (error, state) in [
            (DurableError::Closed, "closed"),
            (DurableError::Store(Arc::new(StoreError::Unavailable("starting up".to_owned()))), "unavailable"),
            (DurableError::Store(Arc::new(StoreError::Failed(std::io::Error::other("damaged")))), "failed"),
        ] {
            assert_eq!(state_after(&error), state);
        }
    }
}
