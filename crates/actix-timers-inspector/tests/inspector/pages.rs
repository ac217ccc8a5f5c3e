//! The inspector over HTTP: its responses and rejections. `browser` tests its page in a browser.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::integration::{InternalTimers, builder_on_clock_of};
use actix_timers::{ActorId, ScheduleAfter, Target, TimerActor, TimerContext, TimerId, TimerOptions, impl_due_timers};
use actix_timers_inspector::Inspector;
use actix_web::body::to_bytes;
use actix_web::dev::ServiceResponse;
use actix_web::http::{Method, StatusCode, header};
use actix_web::middleware::DefaultHeaders;
use actix_web::test::{TestRequest, init_service};
use actix_web::{App, HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use support::{Note, World, block, in_virtual_time, ms, paused, run};
use tokio::sync::oneshot;

type Answering = Pin<Box<dyn Future<Output = ServiceResponse>>>;

/// An application under test.
pub(super) struct Served(Box<dyn Fn(TestRequest) -> Answering>);

impl Served {
    /// Sends a request like a browser on the same machine.
    pub(super) async fn call(&self, request: TestRequest) -> ServiceResponse {
        self.call_as_it_is(request.insert_header((header::HOST, "localhost:8080"))).await
    }

    async fn call_as_it_is(&self, request: TestRequest) -> ServiceResponse {
        (self.0)(request).await
    }
}

macro_rules! served {
    ($app:expr) => {{
        let app = Rc::new(init_service($app).await);
        Served(Box::new(move |request| {
            let app = Rc::clone(&app);
            Box::pin(async move { request.send_request(&*app).await })
        }))
    }};
}

/// Starts an application with an inspector at `/ops/timers`.
pub(super) async fn serve(inspector: &Inspector) -> Served {
    served!(App::new().service(inspector.scope("/ops/timers")))
}

/// Runs a test with an application whose inspector shows one timer actor.
fn inspected(test: impl AsyncFnOnce(World, Served)) {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let app = serve(&Inspector::new(&world.timers)).await;
        test(world, app).await;
    });
}

/// Returns the status and the JSON of a response.
pub(super) async fn content(response: ServiceResponse) -> (u16, Value) {
    let status = response.status().as_u16();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    assert!(is_json, "{status} {:?}", response.headers());
    let body = to_bytes(response.into_body()).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Returns the response of a path below `/ops/timers/api/`.
pub(super) async fn get(app: &Served, path: &str) -> Value {
    let (status, body) = content(app.call(TestRequest::get().uri(&format!("/ops/timers/api/{path}"))).await).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

pub(super) async fn rejection(app: &Served, path: &str) -> (u16, String, String) {
    let (status, body) = content(app.call(TestRequest::get().uri(&format!("/ops/timers/{path}"))).await).await;
    let text = |field: &str| body[field].as_str().unwrap_or_else(|| panic!("{path}: {body}")).to_owned();
    (status, text("error"), text("message"))
}

pub(super) fn ids(list: &Value) -> Vec<String> {
    let timers = list["timers"].as_array().unwrap();
    timers.iter().map(|timer| timer["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns an id as a read-only page shows it: without its last group.
pub(super) fn short(id: impl Display) -> String {
    id.to_string()[..23].to_owned()
}

/// Asserts that a value has these fields, among others.
#[track_caller]
pub(super) fn assert_has(value: &Value, expected: Value) {
    for (name, expected) in expected.as_object().unwrap() {
        assert_eq!(value[name], *expected, "{name} in {value}");
    }
}

fn sum(levels: &Value, field: &str) -> u64 {
    let segments = levels.as_array().unwrap().iter().flat_map(|level| level["segments"].as_array().unwrap());
    segments.map(|segment| segment[field].as_u64().unwrap()).sum()
}

#[test]
fn the_wheel_is_shown_as_it_is_at_that_moment() {
    let builder = || TimerActor::builder().name("shop").wheel_size(8).capacity(100);
    in_virtual_time(builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        world.run_to(3).await;
        for delay in [2, 2, 3, 12, 40, 40, 41] {
            world.after(&addr, delay, delay);
        }
        let app = serve(&Inspector::new(&world.timers)).await;
        let wheel = get(&app, "wheel").await;
        assert_has(
            &wheel,
            json!({
                "timer": "shop", "state": "running", "pending": 7, "in_wheel": 7, "due": 0,
                "tick_seconds": 0.001, "wheel_size": 8, "capacity": 100, "depth": 2, "horizon_seconds": 0.064,
                "now_seconds": 0.003, "next_expiration_in_seconds": 0.002
            }),
        );
        assert_eq!(wheel["counters"]["accepted"], 7);
        let first = json!({
            "at": 5, "start_tick": "5", "expires_in_seconds": 0.002, "buckets": 1, "entries": 2, "fullest": 2
        });
        let level = &wheel["levels"][0];
        assert_has(
            level,
            json!({
                "entries": 3, "occupied": 2, "fullest": 2, "bucket_seconds": 0.001, "turn_seconds": 0.008
            }),
        );
        assert_eq!(level["segments"][0], first);
        let head = json!({
            "level": 0, "start_tick": "5", "expires_in_seconds": 0.002, "width_seconds": 0.001, "entries": 2
        });
        assert_eq!(wheel["delay_queue"][0], head);
        let starts = wheel["delay_queue"].as_array().unwrap().iter().map(|head| &head["start_tick"]);
        assert!(starts.eq(["5", "6", "8", "40"]), "{wheel}");
        assert_eq!(sum(&wheel["levels"], "entries"), 7);
        world.run_to(20).await;
        let wheel = get(&app, "wheel").await;
        assert_has(&wheel, json!({ "pending": 3, "clock_tick": "15" }));
        assert_eq!(wheel["counters"]["delivered"], 4);
    });
}

/// 65 536 buckets could not be distinguished, and would be too many to send every second.
#[test]
fn buckets_of_a_large_wheel_are_put_together() {
    paused(async {
        let timers = TimerActor::builder().wheel_size(65_536).start().unwrap();
        let (addr, _log) = World::paused(TimerActor::builder()).probe::<u64>();
        for delay in 1..=20_000 {
            timers.schedule_after(&addr, ms(delay), Note(delay));
        }
        timers.schedule_after(&addr, Duration::MAX, Note(0));
        let wheel = get(&serve(&Inspector::new(&timers)).await, "wheel").await;
        assert_eq!((sum(&wheel["levels"], "entries"), sum(&wheel["levels"], "buckets")), (20_001, 20_001));
        let level = &wheel["levels"][0];
        assert_eq!(level["buckets_per_segment"], 128);
        assert!(level["segments"].as_array().unwrap().len() < 160);
        assert_eq!(level["segments"][1]["entries"], 128);
    });
}

#[test]
fn timers_are_found_by_filters_and_paged() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let tag = ActorId::from(&addr).tag().unwrap();
        let mut all = BTreeSet::new();
        for number in 0..1000_u64 {
            let options =
                TimerOptions::new().key(format!("k{number}")).group(if number % 2 == 0 { "even" } else { "odd" });
            let timer = world.timers.timer(&addr, options).schedule(ms(1000 + number * 10), Note(number));
            all.insert(timer);
        }
        let own = run(&addr, |_, ctx| ctx.schedule_after(ms(50), Note(1))).await;
        let app = serve(&Inspector::new(&world.timers)).await;

        let one = get(&app, "timers?key=k77").await;
        assert_eq!(ids(&one).len(), 1);
        let timer = &one["timers"][0];
        let shown = json!({ "key": "k77", "group": "odd", "state": "waiting", "due_in_seconds": 1.77, "actor": tag });
        assert_has(timer, shown);
        assert_eq!(timer["location"]["kind"], "wheel");
        assert!(timer["explanation"].as_str().unwrap().starts_with("Not due yet: 1.7s left."), "{timer}");
        assert_eq!(one["next"], Value::Null);

        for (filter, expected) in
            [("group=even", 500), ("due_within=2", 102), (&*format!("actor={tag}"), 1001), ("actor=Probe", 1001)]
        {
            let (mut found, mut cursor) = (Vec::new(), Some(String::new()));
            while let Some(from) = cursor {
                let part = get(&app, &format!("timers?{filter}&limit=70&cursor={from}")).await;
                assert!(ids(&part).len() <= 70);
                found.extend(ids(&part));
                cursor = part["next"].as_str().map(str::to_owned);
            }
            assert_eq!(found.len(), expected, "{filter}");
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), expected, "{filter}: none twice");
        }
        let late = get(&app, "timers?due_after=10.98&limit=500").await;
        assert_eq!((ids(&late).len(), &late["timers"][0]["key"]), (1, &json!("k999")));
        assert_eq!(ids(&get(&app, "timers?level=0").await), [short(own)]);
        for nothing in [
            "timers?message_type=Note&state=due",
            "timers?key=k77&cursor=18446744073709551615",
            "bucket?level=1&start_tick=1025",
            "bucket?level=99999999999&start_tick=18446744073709551615",
        ] {
            assert!(ids(&get(&app, nothing).await).is_empty(), "{nothing}");
        }

        let next = get(&app, "next?limit=3").await;
        assert_eq!((&ids(&next)[0], next["sampled"].as_bool()), (&short(own), Some(false)));
        assert_eq!((&next["timers"][1]["key"], &next["timers"][2]["key"]), (&json!("k0"), &json!("k1")));
        let bucket = get(&app, "bucket?level=1&start_tick=1024&limit=2").await;
        assert_eq!((&bucket["timers"][0]["key"], &bucket["sampled"]), (&json!("k3"), &json!(true)));
    });
}

/// The next timers are in the order of deadlines, and at most some hundred are examined.
#[test]
fn the_next_of_a_crowd_are_a_sample() {
    inspected(async |world, app| {
        let (addr, _log) = world.probe::<u64>();
        for number in 0..2000 {
            world.after(&addr, 300 + number % 100, number);
        }
        let next = get(&app, "next?limit=400").await;
        let due: Vec<f64> =
            next["timers"].as_array().unwrap().iter().map(|timer| timer["due_in_seconds"].as_f64().unwrap()).collect();
        assert!(due.is_sorted());
        assert_eq!((due.len(), &next["sampled"]), (256, &json!(true)));
    });
}

#[test]
fn one_timer_says_why_it_waits_until_it_has_ended() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let go = block(&addr).await;
        let target = Target::from(&addr).window(1);
        let ids: Vec<TimerId> = (0..3).map(|name| world.after(target.clone(), 10, name)).collect();
        let app = serve(&Inspector::new(&world.timers)).await;
        world.run_to(20).await;
        let timer = get(&app, &format!("timers/{}", ids[2])).await;
        let place = json!({ "kind": "queue", "length": 2, "ahead": 1, "under_way": 1 });
        let name = world.timers.name();
        assert_has(&timer, json!({ "location": place, "state": "due", "due_in_seconds": -0.01, "timer": name }));
        let explanation = timer["explanation"].as_str().unwrap();
        assert!(explanation.starts_with("Due, in the queue of its recipient, behind 1 of 2."), "{explanation}");
        assert_eq!(get(&app, "wheel").await["due"], 2);
        assert_eq!(get(&app, "timers?state=due").await["timers"].as_array().unwrap().len(), 2);
        go.send(()).unwrap();
        world.run_to(30).await;
        let (status, error, message) = rejection(&app, &format!("api/timers/{}", ids[2])).await;
        assert_eq!((status, error.as_str()), (404, "unknown_timer"), "{message}");
    });
}

/// Unit tests have more forms of ids and parameters.
#[test]
fn an_invalid_request_is_rejected_with_a_reason() {
    inspected(async |_, app| {
        for (path, status, word) in [
            ("api/timers/nonsense", 400, "bad_request"),
            ("api/timers/123e4567-e89b-12d3-a456-426614174000", 400, "bad_request"),
            ("api/timers/%FF%FE", 400, "bad_request"),
            (&*format!("api/timers/{}", TimerId::new()), 404, "unknown_timer"),
            ("api/timers?limit=501", 400, "bad_request"),
            ("api/timers?cursor=abc", 400, "bad_request"),
            ("api/timers?key=%FF", 400, "bad_request"),
            ("api/timers?due_within=NaN", 400, "bad_request"),
            ("api/timers?due_after=-1", 400, "bad_request"),
            ("api/timers?__proto__=1", 400, "bad_request"),
            ("api/wheel?timer=other", 404, "unknown_timer_actor"),
            ("api/wheel?timer[]=x", 400, "bad_request"),
            ("api/bucket?level=0", 400, "bad_request"),
            ("api/bucket?level=-1&start_tick=0", 400, "bad_request"),
            ("api/next?limit=1%00", 400, "bad_request"),
            ("api/nothing", 404, "unknown_path"),
            ("api/timers/a/b", 404, "unknown_path"),
            ("..%2f..%2fetc/passwd", 404, "unknown_path"),
        ] {
            let (found, error, message) = rejection(&app, path).await;
            assert_eq!((found, error.as_str()), (status, word), "{path}: {message}");
            assert!(!message.is_empty());
        }
    });
}

#[test]
fn other_methods_are_rejected_and_told_which_there_are() {
    inspected(async |_, app| {
        for path in ["", "/", "/api/wheel", "/api/next", "/api/timers", "/api/timer-actors", "/api/bucket"] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
                let request = TestRequest::default().method(method).uri(&format!("/ops/timers{path}"));
                let response = app.call(request).await;
                assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
                assert_eq!(response.headers().get(header::ALLOW).unwrap(), "GET, HEAD");
            }
        }
        let request = TestRequest::post().uri(&format!("/ops/timers/api/timers/{}", TimerId::new()));
        let (status, body) = content(app.call(request).await).await;
        assert_eq!((status, &body["error"]), (405, &json!("wrong_method")));
        let head = TestRequest::default().method(Method::HEAD).uri("/ops/timers/api/wheel");
        assert_eq!(app.call(head).await.status(), StatusCode::OK);
    });
}

async fn cancel(app: &Served, id: &str, header: Option<&str>) -> (u16, Value) {
    let request = TestRequest::delete().uri(&format!("/ops/timers/api/timers/{id}"));
    let request = header.into_iter().fold(request, |request, value| request.insert_header(("X-Actix-Timers", value)));
    content(app.call(request).await).await
}

#[test]
fn nothing_is_cancelled_unless_enabled_and_really_asked_for() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1).to_string();
        let (tell, told) = std::sync::mpsc::channel();
        let inspector = Inspector::new(&world.timers).user(|request| Some(request.path().to_owned()));
        let inspector = inspector.audit(move |change| tell.send(change.clone()).unwrap());
        let app = serve(&inspector).await;
        assert_eq!(get(&app, "timer-actors").await["cancel_allowed"], false);
        let (status, body) = cancel(&app, &id, Some("cancel")).await;
        assert_eq!((status, &body["error"]), (403, &json!("cancel_not_allowed")));

        let app = serve(&inspector.allow_cancel(true)).await;
        assert_eq!(get(&app, "timer-actors").await["cancel_allowed"], true);
        for header in [None, Some(""), Some("Cancel"), Some("x")] {
            let (status, body) = cancel(&app, &id, header).await;
            assert_eq!((status, &body["error"]), (403, &json!("no_cancel_header")));
        }
        assert_eq!(cancel(&app, "x", Some("cancel")).await.0, 400);
        assert!(world.pending() == 1 && told.try_recv().is_err(), "nothing was changed");
        let (status, body) = cancel(&app, &id, Some("cancel")).await;
        assert_eq!((status, body), (200, json!({ "id": id, "outcome": "cancelled" })));
        let change = told.try_recv().unwrap();
        assert_eq!(change.user, Some(format!("/ops/timers/api/timers/{id}")));
        assert_eq!((change.action, &change.target, &*change.outcome), ("cancel", &id, "cancelled"));
        assert_eq!(cancel(&app, &id, Some("cancel")).await.0, 404);
        let second = world.after(&addr, 10, 2).to_string();
        world.run_to(20).await;
        assert_eq!(log.names(), [2]);
        let (status, body) = cancel(&app, &second, Some("cancel")).await;
        assert_eq!((status, &body["outcome"]), (409, &json!("already_delivered")));
        let change = told.try_recv().unwrap();
        assert_eq!((change.target, &*change.outcome), (second, "already_delivered"), "it was in vain");
        assert!(told.try_recv().is_err());
    });
}

/// Handles each message until a test lets it end.
struct Slow(Rc<RefCell<Vec<oneshot::Sender<()>>>>);

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Note<u64>> for Slow {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Note<u64>, _: &mut Self::Context) -> Self::Result {
        let (go, gate) = oneshot::channel();
        self.0.borrow_mut().push(go);
        Box::pin(async { gate.await.unwrap() })
    }
}

impl_due_timers!(Slow);

#[test]
fn a_cancel_that_ends_a_series_is_reported() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let gates = Rc::new(RefCell::new(Vec::new()));
        let slow = Slow(Rc::clone(&gates)).start();
        let series = world.timers.timer(Target::tracked(&slow), TimerOptions::new());
        let id = series.repeat(ms(10), Note(1_u64)).to_string();
        let (tell, told) = std::sync::mpsc::channel();
        let inspector = Inspector::new(&world.timers).allow_cancel(true);
        let app = serve(&inspector.audit(move |change| tell.send(change.clone()).unwrap())).await;
        world.run_to(15).await;
        let (status, body) = cancel(&app, &id, Some("cancel")).await;
        assert_eq!((status, body), (409, json!({ "id": id, "outcome": "in_progress" })));
        let change = told.try_recv().unwrap();
        assert_eq!((change.action, &change.target, &*change.outcome), ("cancel", &id, "in_progress"));
        gates.borrow_mut().pop().unwrap().send(()).unwrap();
        world.run_to(500).await;
        assert_eq!((gates.borrow().len(), world.pending()), (0, 0), "the series has ended");
    });
}

/// The scope of the application decides about access.
#[test]
fn it_takes_the_middleware_of_the_application_and_any_path() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let inspector = Inspector::new(&world.timers);
        let guarded = inspector.scope("/wheel").wrap(DefaultHeaders::new().add(("X-Guard", "yes")));
        let app = App::new().service(web::scope("/ops").service(guarded)).service(inspector.scope("/other/"));
        let app = served!(app.route("/mine", web::get().to(HttpResponse::Ok)));
        for (path, expected) in [
            ("/ops/wheel", (200, true)),
            ("/ops/wheel/api/x", (404, true)),
            ("/other/", (200, false)),
            ("/other/api/wheel", (200, false)),
            ("/mine", (200, false)),
            ("/ops", (404, false)),
        ] {
            let response = app.call(TestRequest::get().uri(path)).await;
            assert_eq!((response.status().as_u16(), response.headers().contains_key("x-guard")), expected, "{path}");
        }
    });
}

#[test]
fn a_scope_around_it_may_have_an_id_of_its_own() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1);
        let inspector = Inspector::new(&world.timers);
        let app = served!(App::new().service(web::scope("/shops/{id}").service(inspector.scope("/timers"))));
        let path = format!("/shops/42/timers/api/timers/{id}");
        let (status, body) = content(app.call(TestRequest::get().uri(&path)).await).await;
        assert_eq!((status, &body["id"]), (200, &json!(short(id))), "{body}");
    });
}

#[test]
fn several_timer_actors_are_told_apart_and_show_their_states() {
    paused(async {
        let world = World::paused(TimerActor::builder().name("orders"));
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 1000, 1);
        let far = world.after(&addr, 100_000, 2);
        let inspector = Inspector::new(&world.timers).allow_cancel(true);
        let app = serve(&inspector).await;
        let timers = world.timers.clone();
        let draining = actix::spawn(async move { timers.drain_within(ms(5000)).await.len() });
        tokio::task::yield_now().await;
        assert_eq!(get(&app, "wheel").await["state"], "draining");
        assert_eq!(get(&app, &format!("timers/{id}")).await["state"], "waiting");
        assert_eq!(draining.await.unwrap(), 1);
        assert_eq!(get(&app, "wheel").await["counters"]["returned"], 1);
        assert_eq!(get(&app, "timers").await["timers"], json!([]));
        assert_eq!(cancel(&app, &far.to_string(), Some("cancel")).await.0, 404);

        let arbiter = Arbiter::new();
        let (tell, told) = oneshot::channel();
        arbiter.spawn(async { tell.send(TimerActor::builder().name("orders").start().unwrap()).unwrap() });
        let twin = told.await.unwrap();
        let of_twin = twin.schedule_after(&addr, ms(1_000_000), Note(1));
        let other = TimerActor::builder().name("a&b <i>").start().unwrap();
        let app = serve(&inspector.add_timers(&twin).add_timers(&other)).await;
        assert_eq!(get(&app, "wheel?timer=orders+(2)").await["pending"], 1);
        assert_eq!(get(&app, "wheel?timer=a%26b%20%3Ci%3E").await["timer"], "a&b <i>");
        assert_eq!(get(&app, &format!("timers/{of_twin}")).await["timer"], "orders (2)");
        arbiter.stop();
        arbiter.join().unwrap();
        let all = get(&app, "timer-actors").await;
        for (at, name, state) in [(0, "orders", "drained"), (1, "orders (2)", "stopped"), (2, "a&b <i>", "running")] {
            assert_has(&all["timer_actors"][at], json!({ "timer": name, "state": state }));
        }
        let wheel = get(&app, "wheel?timer=orders+(2)").await;
        assert_eq!((&wheel["state"], &wheel["counters"]["service_stopped"]), (&json!("stopped"), &json!(1)));
        assert_eq!(get(&app, "next?timer=orders+(2)").await["timers"], json!([]));
    });
}

#[test]
fn the_page_is_one_document_without_outside_resources() {
    paused(async {
        let world = World::paused(TimerActor::builder().name("</script><b>"));
        let app = serve(&Inspector::new(&world.timers)).await;
        let mut nonces = BTreeSet::new();
        for path in ["/ops/timers", "/ops/timers/"] {
            let response = app.call(TestRequest::get().uri(path)).await;
            let header = |name| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
            assert_eq!(header("content-type"), "text/html; charset=utf-8");
            let policy = header("content-security-policy");
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
            let body = to_bytes(response.into_body()).await.unwrap();
            let page = std::str::from_utf8(&body).unwrap();
            assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
            let foreign = page.split("://").skip(1).find(|rest| !rest.starts_with("www.w3.org"));
            assert_eq!(foreign, None);
            // All is filled in, and no name of anybody stands in it.
            for text in ["{{", "</script><b>", "innerHTML", "insertAdjacentHTML", "eval("] {
                assert!(!page.contains(text), "{text}");
            }
            nonces.insert(nonce);
        }
        assert_eq!(nonces.len(), 2, "a new one for each response");
    });
}

/// Returns the response to a request with these headers only.
async fn asked(app: &Served, method: &Method, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let request = TestRequest::default().method(method.clone()).uri(path);
    let request = headers.iter().fold(request, |request, header| request.append_header(*header));
    content(app.call_as_it_is(request).await).await
}

/// A page of another site whose name resolves to this server: the browser sends its name as `Host`.
#[test]
fn every_request_for_a_foreign_host_is_rejected() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1);
        let app = serve(&Inspector::new(&world.timers).allow_cancel(true)).await;
        let timer = format!("/ops/timers/api/timers/{id}");
        let requests = [
            (Method::GET, "/ops/timers"),
            (Method::GET, "/ops/timers/"),
            (Method::GET, "/ops/timers/api/wheel"),
            (Method::GET, "/ops/timers/api/nothing"),
            (Method::POST, "/ops/timers/api/wheel"),
            (Method::OPTIONS, &timer),
            (Method::GET, &timer),
            (Method::DELETE, &timer),
        ];
        for host in ["evil.example:8080", "0.0.0.0:8080"] {
            for (method, path) in &requests {
                let headers = [("Host", host), ("X-Actix-Timers", "cancel"), ("X-Forwarded-Host", "localhost")];
                let (status, body) = asked(&app, method, path, &headers).await;
                assert_eq!((status, &body["error"]), (403, &json!("host_not_allowed")), "{host} {method} {path}");
                let message = body["message"].as_str().unwrap();
                assert!(message.contains("Inspector::allow_host") && message.contains(host), "{message}");
            }
        }
        assert_eq!(world.pending(), 1);
        let headers = [("Host", "[::1]:8080"), ("X-Actix-Timers", "cancel"), ("X-Forwarded-Host", "evil.example")];
        assert_eq!(asked(&app, &Method::DELETE, &timer, &headers).await.0, 200, "forwarded headers are ignored");
    });
}

/// Unit tests have the spellings of hosts.
#[test]
fn a_request_names_one_host_that_is_one() {
    inspected(async |_, app| {
        let path = "/ops/timers/api/wheel";
        // As in HTTP/2, and as an absolute URL.
        let absolute = |host: &str| format!("http://{host}{path}");
        let [own, foreign] = ["localhost", "evil.example"].map(|host| ("Host", host));
        for (path, headers, status) in [
            (path, &[("Host", "[::ffff:127.0.0.1]:80")][..], 200),
            (path, &[("Host", "a b")], 400),
            (path, &[], 400),
            (path, &[own, foreign], 403),
            (path, &[foreign, own], 403),
            (&*absolute("localhost:8080"), &[], 200),
            (&*absolute("me@localhost"), &[], 400),
            (&*absolute("evil.example"), &[], 403),
            (&*absolute("evil.example"), &[own], 403),
            (&*absolute("localhost"), &[foreign], 403),
        ] {
            let (found, body) = asked(&app, &Method::GET, path, headers).await;
            assert_eq!(found, status, "{path} {headers:?}");
            let error = match status {
                400 => json!("bad_request"),
                403 => json!("host_not_allowed"),
                _ => Value::Null,
            };
            assert_eq!(body["error"], error, "{path} {headers:?}");
        }
    });
}

#[test]
fn a_cancel_comes_from_the_page_itself_or_from_a_program() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let inspector = Inspector::new(&world.timers).allow_cancel(true);
        let app = serve(&inspector.allow_host("timers.example.org").unwrap()).await;
        let rejected: [&[(&str, &str)]; 12] = [
            &[("Origin", "http://evil.example")],
            &[("Origin", "null")],
            &[("Origin", "")],
            &[("Origin", "http://localhost:3000")],
            &[("Origin", "http://localhost")],
            &[("Origin", "file://localhost:8080")],
            &[("Origin", "https://localhost:8080")],
            &[("Origin", "https://timers.example.org:444")],
            &[("Origin", "https://timers.example.org:8080")],
            &[("Origin", "http://localhost:8080"), ("Origin", "http://evil.example")],
            &[("Sec-Fetch-Site", "cross-site")],
            &[("Origin", "http://localhost:8080"), ("Sec-Fetch-Site", "same-site")],
        ];
        let id = world.after(&addr, 10, 1);
        for headers in rejected {
            let headers = [&[("Host", "localhost:8080"), ("X-Actix-Timers", "cancel")], headers].concat();
            let (status, body) = asked(&app, &Method::DELETE, &format!("/ops/timers/api/timers/{id}"), &headers).await;
            assert_eq!((status, &body["error"]), (403, &json!("origin_not_allowed")), "{headers:?}");
            assert!(body["message"].as_str().unwrap().contains("Inspector::allow_host"));
        }
        assert_eq!(world.pending(), 1);
        let foreign = [("Host", "localhost"), ("Origin", "http://evil.example")];
        // It cannot read the answer.
        for (method, status) in [(Method::POST, 403), (Method::GET, 200)] {
            assert_eq!(asked(&app, &method, "/ops/timers/api/wheel", &foreign).await.0, status);
        }

        let of_proxy = [("Host", "timers.example.org:8443"), ("X-Actix-Timers", "cancel")];
        for origin in ["https://timers.example.org:9443", "https://evil.example:8443", "http://timers.example.org:9443"]
        {
            let headers = [&of_proxy[..], &[("Origin", origin)]].concat();
            let (status, _) = asked(&app, &Method::DELETE, &format!("/ops/timers/api/timers/{id}"), &headers).await;
            assert_eq!((status, world.pending()), (403, 1), "{origin}");
        }

        let taken: [(&str, &[(&str, &str)]); 8] = [
            ("localhost:8080", &[]),
            ("localhost:8080", &[("Origin", "http://LOCALHOST:8080"), ("Sec-Fetch-Site", "same-origin")]),
            ("localhost:8080", &[("Sec-Fetch-Site", "none")]),
            ("localhost", &[("Origin", "http://localhost")]),
            ("timers.example.org", &[("Origin", "https://timers.example.org")]),
            ("timers.example.org:8443", &[("Origin", "https://timers.example.org:8443")]),
            // Behind a proxy that passes on another host.
            ("127.0.0.1:8080", &[("Origin", "https://timers.example.org"), ("Sec-Fetch-Site", "same-origin")]),
            ("127.0.0.1:8080", &[("Origin", "https://timers.example.org:443")]),
        ];
        for (host, headers) in taken {
            let id = world.after(&addr, 10, 2);
            let headers = [&[("Host", host), ("X-Actix-Timers", "cancel")], headers].concat();
            let (status, body) = asked(&app, &Method::DELETE, &format!("/ops/timers/api/timers/{id}"), &headers).await;
            assert_eq!(status, 200, "{headers:?}: {body}");
        }
    });
}

/// Responses, rejections and the page: none may be cached, framed by another site, or interpreted as another type.
#[test]
fn every_response_restricts_caching_framing_and_sniffing() {
    inspected(async |_, app| {
        for (path, host) in [
            ("", "localhost"),
            ("/api/wheel", "localhost"),
            ("/api/timers?limit=0", "localhost"),
            ("/api/nothing", "localhost"),
            ("/api/wheel", "evil.example"),
            ("/api/wheel", ""),
        ] {
            let request = TestRequest::get().uri(&format!("/ops/timers{path}")).insert_header((header::HOST, host));
            let response = app.call_as_it_is(request).await;
            let value = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            for (name, expected) in [
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                ("cross-origin-resource-policy", "same-origin"),
                ("referrer-policy", "no-referrer"),
                ("x-frame-options", if path.is_empty() { "SAMEORIGIN" } else { "DENY" }),
                ("access-control-allow-origin", ""),
            ] {
                assert_eq!(value(name), expected, "{name} of {path} {host}");
            }
            let policy = value("content-security-policy");
            assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors"), "{policy}");
        }
    });
}

/// The whole id of a timer allows to cancel it, elsewhere or through the application.
#[test]
fn ids_are_short_where_nothing_can_be_cancelled() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let plain = world.after(&addr, 10, 1);
        let own = run(&addr, |_, ctx| ctx.schedule_after(ms(20), Note(1))).await;
        // Created before the timer actor was known.
        let request = ScheduleAfter::new(&addr, ms(30), Note(1));
        let named = request.id();
        world.timers.addr().send(request).await.unwrap().unwrap();
        let inspector = Inspector::new(&world.timers);
        let app = serve(&inspector).await;
        for path in ["next", "timers", "bucket?level=0&start_tick=10"] {
            for (shown, id) in ids(&get(&app, path).await).iter().zip([plain, own, named]) {
                assert_eq!((shown.len(), shown), (23, &short(id)), "{path}");
                assert!(shown.parse::<TimerId>().is_err());
            }
        }
        for id in [plain, own, named] {
            for form in [id.to_string(), short(id), short(id).to_uppercase()] {
                let timer = get(&app, &format!("timers/{form}")).await;
                assert_eq!(timer["id"], short(id));
            }
            let mut other = short(id);
            other.replace_range(22.., if other.ends_with('0') { "1" } else { "0" });
            assert_eq!(rejection(&app, &format!("api/timers/{other}")).await.0, 404);
        }
        for text in [
            "00000010-0000-8000-800",
            "00000010-0000-8000-8000-",
            "00000010-0000-4000-8000",
            "%C3%A90000010-0000-8000-800",
        ] {
            assert_eq!(rejection(&app, &format!("api/timers/{text}")).await.0, 400, "{text}");
        }

        let app = serve(&inspector.allow_cancel(true)).await;
        assert_eq!(ids(&get(&app, "next").await), [plain, own, named].map(|id| id.to_string()));
        assert_eq!(get(&app, &format!("timers/{}", short(named))).await["id"], named.to_string());
        assert_eq!(cancel(&app, &short(plain), Some("cancel")).await.0, 400);
        assert_eq!(cancel(&app, &plain.to_string(), Some("cancel")).await.0, 200);
        // Its slot is reused by another timer.
        let next = world.after(&addr, 10, 1);
        assert_eq!(rejection(&app, &format!("api/timers/{}", short(plain))).await.0, 404);
        assert_eq!(get(&app, &format!("timers/{}", short(next))).await["id"], next.to_string());
    });
}

/// Two hundred searches of all timers, and a viewer who opens the page.
#[test]
fn a_viewer_does_not_wait_for_the_searches_of_others() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        for number in 0..20_000 {
            world.after(&addr, 1000 + number, number);
        }
        let app = Rc::new(serve(&Inspector::new(&world.timers)).await);
        let ended = Rc::new(RefCell::new(Vec::new()));
        let ask = |name: &'static str, path: &'static str| {
            let (app, ended) = (Rc::clone(&app), Rc::clone(&ended));
            actix::spawn(async move {
                let part = get(&app, path).await;
                ended.borrow_mut().push(name);
                part
            })
        };
        let searches: Vec<_> = (0..200).map(|_| ask("search", "timers?key=none")).collect();
        let viewers = [ask("viewer", "wheel"), ask("viewer", "next")];
        for viewer in viewers {
            viewer.await.unwrap();
        }
        assert_eq!(*ended.borrow(), ["viewer", "viewer"]);
        let mut parts = Vec::new();
        for search in searches {
            parts.push(search.await.unwrap());
        }
        // The remaining searches have longer parts.
        let looked_at: Vec<u64> = parts.iter().map(|part| part["looked_at"].as_u64().unwrap()).collect();
        assert_eq!(looked_at.iter().min(), Some(&4096), "{looked_at:?}");
    });
}

/// Clients that never read would otherwise fill the memory with their answers.
#[test]
fn answers_that_are_not_read_are_ended_when_there_are_too_many() {
    inspected(async |world, app| {
        let (addr, _log) = world.probe::<u64>();
        for number in 0..500 {
            let options = TimerOptions::new().key(format!("{number:01000}")).group("g".repeat(1000));
            world.timers.timer(&addr, options).schedule(ms(1000), Note(number));
        }
        let ask = || app.call(TestRequest::get().uri("/ops/timers/api/timers?limit=500"));
        let mut unread = Vec::new();
        for _ in 0..12 {
            unread.push(ask().await);
        }
        assert!(to_bytes(unread.remove(0).into_body()).await.is_err(), "the oldest has been ended");
        for response in [ask().await, unread.pop().unwrap()] {
            let (status, read) = content(response).await;
            assert_eq!((status, ids(&read).len()), (200, 500), "one that reads, and the latest to wait");
        }
    });
}

/// For example those of durable timers.
#[test]
fn internal_timers_on_the_clock_of_a_timer_actor_are_not_shown() {
    inspected(async |world, app| {
        let (addr, _log) = world.probe::<u64>();
        let internal = InternalTimers::start(builder_on_clock_of(&world.timers)).unwrap();
        for number in 0..10 {
            internal.schedule_after(Target::from(&addr).strong(), ms(1000), Note(number));
        }
        assert_eq!(internal.snapshot().counters.pending, 10);
        assert_eq!(get(&app, "timers").await["timers"], json!([]));
        let wheel = get(&app, "wheel").await;
        assert_has(&wheel["counters"], json!({ "pending": 0, "accepted": 0 }));
        assert_eq!((&wheel["actors"], sum(&wheel["levels"], "entries")), (&json!(0), 0), "{wheel}");
    });
}

#[test]
fn the_user_is_named_before_the_cancel() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1).to_string();
        let (timers, pending) = (world.timers.clone(), Arc::new(AtomicU64::new(9)));
        let seen = Arc::clone(&pending);
        let user = move |_: &HttpRequest| {
            seen.store(timers.snapshot().counters.pending, Ordering::SeqCst);
            None
        };
        let app = serve(&Inspector::new(&world.timers).allow_cancel(true).user(user)).await;
        assert_eq!(cancel(&app, &id, Some("cancel")).await.0, 200);
        assert_eq!(pending.load(Ordering::SeqCst), 1);
    });
}
