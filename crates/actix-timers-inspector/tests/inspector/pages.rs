//! The inspector over HTTP: its responses and rejections. `browser` tests its page in a browser.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::integration::{InternalTimers, builder_on_clock_of};
use actix_timers::{ActorId, ScheduleAfter, Target, TimerActor, TimerContext, TimerId, TimerOptions, Timers};
use actix_timers_inspector::Inspector;
use actix_web::body::to_bytes;
use actix_web::dev::ServiceResponse;
use actix_web::http::{Method, StatusCode, header};
use actix_web::middleware::DefaultHeaders;
use actix_web::test::{TestRequest, init_service};
use actix_web::{App, HttpResponse, web};
use serde_json::{Value, json};
use support::{Note, Probe, block, in_virtual_time, ms, paused, run};
use tokio::sync::oneshot;

type Answering = Pin<Box<dyn Future<Output = ServiceResponse>>>;

/// An application under test.
pub(super) struct Served(Box<dyn Fn(TestRequest) -> Answering>);

impl Served {
    /// Sends a request like a browser on the same machine.
    async fn call(&self, request: TestRequest) -> ServiceResponse {
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

pub(super) async fn answer(app: &Served, request: TestRequest) -> (StatusCode, Value) {
    content(app.call(request).await).await
}

async fn content(response: ServiceResponse) -> (StatusCode, Value) {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    assert!(is_json, "{status} {:?}", response.headers());
    let body = to_bytes(response.into_body()).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Returns the response of a path below `/ops/timers/api/`.
pub(super) async fn get(app: &Served, path: &str) -> Value {
    let (status, body) = answer(app, TestRequest::get().uri(&format!("/ops/timers/api/{path}"))).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

pub(super) async fn rejection(app: &Served, path: &str) -> (u16, String, String) {
    let (status, body) = answer(app, TestRequest::get().uri(&format!("/ops/timers/{path}"))).await;
    let text = |field: &str| body[field].as_str().unwrap_or_else(|| panic!("{path}: {body}")).to_owned();
    (status.as_u16(), text("error"), text("message"))
}

/// Returns ids as a read-only page shows them: without their last group.
fn ids(list: &Value) -> Vec<String> {
    let timers = list["timers"].as_array().unwrap();
    timers.iter().map(|timer| timer["id"].as_str().unwrap().to_owned()).collect()
}

fn short(id: TimerId) -> String {
    id.to_string()[..23].to_owned()
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
        assert_eq!(wheel["timer"], "shop");
        assert_eq!(wheel["state"], "running");
        assert_eq!((&wheel["pending"], &wheel["in_wheel"], &wheel["due"]), (&json!(7), &json!(7), &json!(0)));
        assert_eq!(
            (&wheel["tick_seconds"], &wheel["wheel_size"], &wheel["capacity"]),
            (&json!(0.001), &json!(8), &json!(100))
        );
        assert_eq!((&wheel["depth"], &wheel["horizon_seconds"]), (&json!(2), &json!(0.064)));
        assert_eq!((&wheel["now_seconds"], &wheel["next_expiration_in_seconds"]), (&json!(0.003), &json!(0.002)));
        assert_eq!(wheel["counters"]["accepted"], 7);
        let level = &wheel["levels"][0];
        assert_eq!((&level["entries"], &level["occupied"], &level["fullest"]), (&json!(3), &json!(2), &json!(2)));
        assert_eq!((&level["bucket_seconds"], &level["turn_seconds"]), (&json!(0.001), &json!(0.008)));
        let first = json!({
            "at": 5, "start_tick": "5", "expires_in_seconds": 0.002, "buckets": 1, "entries": 2, "fullest": 2
        });
        assert_eq!(level["segments"][0], first);
        let head = json!({
            "level": 0, "start_tick": "5", "expires_in_seconds": 0.002, "width_seconds": 0.001, "entries": 2
        });
        assert_eq!(wheel["delay_queue"][0], head);
        let starts: Vec<&str> =
            wheel["delay_queue"].as_array().unwrap().iter().map(|head| head["start_tick"].as_str().unwrap()).collect();
        assert_eq!(starts, ["5", "6", "8", "40"]);
        assert_eq!(sum(&wheel["levels"], "entries"), 7);
        world.run_to(20).await;
        let wheel = get(&app, "wheel").await;
        assert_eq!((&wheel["pending"], &wheel["counters"]["delivered"]), (&json!(3), &json!(4)));
        assert_eq!(wheel["clock_tick"], "15", "the last that has expired");
    });
}

/// 65 536 buckets could not be distinguished, and would be too many to send every second.
#[test]
fn buckets_of_a_large_wheel_are_put_together() {
    paused(async {
        let timers = TimerActor::builder().wheel_size(65_536).start().unwrap();
        let (addr, _log) = support::World::paused(TimerActor::builder()).probe::<u64>();
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
        assert_eq!(one["timers"].as_array().unwrap().len(), 1);
        let timer = &one["timers"][0];
        assert_eq!(
            (&timer["key"], &timer["group"], &timer["state"]),
            (&json!("k77"), &json!("odd"), &json!("waiting"))
        );
        assert_eq!((&timer["due_in_seconds"], &timer["actor"]), (&json!(1.77), &json!(tag)));
        assert_eq!(timer["location"]["kind"], "wheel");
        assert!(timer["explanation"].as_str().unwrap().starts_with("Not due yet: 1.7s left."), "{timer}");
        assert_eq!(one["next"], Value::Null);

        for (filter, expected) in
            [("group=even", 500), ("due_within=2", 102), (&*format!("actor={tag}"), 1001), ("actor=Probe", 1001)]
        {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let part = get(&app, &format!("timers?{filter}&limit=70&cursor={cursor}")).await;
                assert!(ids(&part).len() <= 70);
                found.extend(ids(&part));
                match part["next"].as_str() {
                    Some(next) => cursor = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!(found.len(), expected, "{filter}");
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), expected, "{filter}: none twice");
        }
        let late = get(&app, "timers?due_after=10.98&limit=500").await;
        assert_eq!(late["timers"][0]["key"], "k999");
        assert_eq!(ids(&late).len(), 1);
        assert_eq!(ids(&get(&app, "timers?message_type=Note&state=due").await), Vec::<String>::new());
        assert_eq!(ids(&get(&app, "timers?level=0").await), [short(own)]);
        assert_eq!(ids(&get(&app, "timers?key=k77&cursor=18446744073709551615").await), Vec::<String>::new());

        let next = get(&app, "next?limit=3").await;
        assert_eq!((&ids(&next)[0], next["sampled"].as_bool()), (&short(own), Some(false)));
        assert_eq!((&next["timers"][1]["key"], &next["timers"][2]["key"]), (&json!("k0"), &json!("k1")));
        let bucket = get(&app, "bucket?level=1&start_tick=1024&limit=2").await;
        assert_eq!((&bucket["timers"][0]["key"], &bucket["sampled"]), (&json!("k3"), &json!(true)));
        assert_eq!(ids(&get(&app, "bucket?level=1&start_tick=1025").await), Vec::<String>::new());
        assert_eq!(
            ids(&get(&app, "bucket?level=99999999999&start_tick=18446744073709551615").await),
            Vec::<String>::new()
        );
    });
}

/// The next timers are in the order of deadlines, and at most some hundred are examined.
#[test]
fn the_next_of_a_crowd_are_a_sample() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        for number in 0..2000 {
            world.after(&addr, 300 + number % 100, number);
        }
        let app = serve(&Inspector::new(&world.timers)).await;
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
        assert_eq!(
            (&timer["location"], &timer["state"], &timer["due_in_seconds"]),
            (&place, &json!("due"), &json!(-0.01))
        );
        assert!(
            timer["explanation"].as_str().unwrap().starts_with("Due, in the queue of its recipient, behind 1 of 2.")
        );
        assert_eq!(timer["timer"], world.timers.name());
        assert_eq!(get(&app, "wheel").await["due"], 2);
        assert_eq!(ids_of_due(&get(&app, "timers?state=due").await), 2);
        go.send(()).unwrap();
        world.run_to(30).await;
        let (status, error, message) = rejection(&app, &format!("api/timers/{}", ids[2])).await;
        assert_eq!((status, error.as_str()), (404, "unknown_timer"), "{message}");
    });
}

fn ids_of_due(list: &Value) -> usize {
    ids(list).len()
}

#[test]
fn an_invalid_request_is_rejected_with_a_reason() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let app = serve(&Inspector::new(&world.timers)).await;
        for (path, status, word) in [
            ("api/timers/nonsense", 400, "bad_request"),
            ("api/timers/123e4567-e89b-12d3-a456-426614174000", 400, "bad_request"),
            ("api/timers/%FF%FE", 400, "bad_request"),
            (&*format!("api/timers/{}", TimerId::new()), 404, "unknown_timer"),
            ("api/timers?limit=0", 400, "bad_request"),
            ("api/timers?limit=501", 400, "bad_request"),
            ("api/timers?limit=99999999999999999999999999", 400, "bad_request"),
            ("api/timers?limit=-1", 400, "bad_request"),
            ("api/timers?cursor=abc", 400, "bad_request"),
            ("api/timers?key=%FF", 400, "bad_request"),
            ("api/timers?key=a&key=b", 400, "bad_request"),
            ("api/timers?state=gone", 400, "bad_request"),
            ("api/timers?due_within=NaN", 400, "bad_request"),
            ("api/timers?due_after=-1", 400, "bad_request"),
            ("api/timers?due_within=1e400", 400, "bad_request"),
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
        let long = format!("api/timers?group={}", "x".repeat(5000));
        assert_eq!(rejection(&app, &long).await.0, 400);
    });
}

#[test]
fn other_methods_are_rejected_and_told_which_there_are() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let app = serve(&Inspector::new(&world.timers)).await;
        for path in ["", "/", "/api/wheel", "/api/next", "/api/timers", "/api/timer-actors", "/api/bucket"] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
                let request = TestRequest::default().method(method).uri(&format!("/ops/timers{path}"));
                let response = app.call(request).await;
                assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
                assert_eq!(response.headers().get(header::ALLOW).unwrap(), "GET, HEAD");
            }
        }
        let request = TestRequest::post().uri(&format!("/ops/timers/api/timers/{}", TimerId::new()));
        let (status, body) = answer(&app, request).await;
        assert_eq!((status, &body["error"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("wrong_method")));
        let head = TestRequest::default().method(Method::HEAD).uri("/ops/timers/api/wheel");
        assert_eq!(app.call(head).await.status(), StatusCode::OK);
    });
}

async fn cancel(app: &Served, id: &str, header: Option<&str>) -> (u16, Value) {
    let request = TestRequest::delete().uri(&format!("/ops/timers/api/timers/{id}"));
    let request = header.into_iter().fold(request, |request, value| request.insert_header(("X-Actix-Timers", value)));
    let (status, body) = answer(app, request).await;
    (status.as_u16(), body)
}

#[test]
fn nothing_is_cancelled_unless_enabled_and_really_asked_for() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1).to_string();
        let inspector = Inspector::new(&world.timers);
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
        assert_eq!(world.pending(), 1);
        assert_eq!(cancel(&app, "x", Some("cancel")).await.0, 400);
        let (status, body) = cancel(&app, &id, Some("cancel")).await;
        assert_eq!((status, body), (200, json!({ "id": id, "outcome": "cancelled" })));
        assert_eq!(cancel(&app, &id, Some("cancel")).await.0, 404);
        let second = world.after(&addr, 10, 2).to_string();
        world.run_to(20).await;
        assert_eq!(log.names(), [2]);
        let (status, body) = cancel(&app, &second, Some("cancel")).await;
        assert_eq!((status, &body["outcome"]), (409, &json!("already_delivered")));
    });
}

#[test]
fn a_cancel_is_reported_with_its_user() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 10, 1).to_string();
        let (tell, told) = std::sync::mpsc::channel();
        let inspector = Inspector::new(&world.timers).user(|request| Some(request.path().to_owned()));
        let inspector = inspector.audit(move |change| tell.send(change.clone()).unwrap());
        assert_eq!(cancel(&serve(&inspector).await, &id, Some("cancel")).await.0, 403);
        let app = serve(&inspector.allow_cancel(true)).await;
        assert_eq!(cancel(&app, &id, None).await.0, 403);
        assert!(told.try_recv().is_err(), "nothing was changed");
        assert_eq!(cancel(&app, &id, Some("cancel")).await.0, 200);
        let change = told.try_recv().unwrap();
        assert_eq!(change.user, Some(format!("/ops/timers/api/timers/{id}")));
        assert_eq!((change.action, change.target, change.outcome), ("cancel", id.clone(), "cancelled".to_owned()));
        assert_eq!(cancel(&app, &id, Some("cancel")).await.0, 404);
        assert!(told.try_recv().is_err());
    });
}

/// The scope of the application decides about access.
#[test]
fn it_takes_the_middleware_of_the_application_and_any_path() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let inspector = Inspector::new(&world.timers);
        let guarded = inspector.scope("/wheel").wrap(DefaultHeaders::new().add(("X-Guard", "yes")));
        let app = served!(
            App::new()
                .service(web::scope("/ops").service(guarded))
                .service(inspector.scope("/other"))
                .route("/mine", web::get().to(HttpResponse::Ok))
        );
        for (path, status, is_guarded) in [
            ("/ops/wheel", 200, true),
            ("/ops/wheel/api/x", 404, true),
            ("/other/", 200, false),
            ("/mine", 200, false),
            ("/ops", 404, false),
        ] {
            let response = app.call(TestRequest::get().uri(path)).await;
            assert_eq!(
                (response.status().as_u16(), response.headers().contains_key("x-guard")),
                (status, is_guarded),
                "{path}"
            );
        }
    });
}

#[test]
fn several_timer_actors_are_told_apart_by_their_names() {
    paused(async {
        let world = support::World::paused(TimerActor::builder().name("orders"));
        let start = |name| TimerActor::builder().name(name).start().unwrap();
        let (twin, other): (Timers, Timers) = (start("orders"), start("a&b <i>"));
        let (addr, _log) = world.probe::<u64>();
        let id = twin.schedule_after(&addr, ms(10), Note(1));
        let app = serve(&Inspector::new(&world.timers).add_timers(&twin).add_timers(&other)).await;
        let all = get(&app, "timer-actors").await;
        let names: Vec<&str> =
            all["timer_actors"].as_array().unwrap().iter().map(|one| one["timer"].as_str().unwrap()).collect();
        assert_eq!(names, ["orders", "orders (2)", "a&b <i>"]);
        assert_eq!(get(&app, "wheel?timer=orders+(2)").await["pending"], 1);
        assert_eq!(get(&app, "wheel?timer=a%26b%20%3Ci%3E").await["timer"], "a&b <i>");
        assert_eq!(get(&app, &format!("timers/{id}")).await["timer"], "orders (2)");
    });
}

#[test]
fn a_timer_actor_that_is_drained_or_has_stopped_says_so() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        let id = world.after(&addr, 1000, 1);
        let far = world.after(&addr, 100_000, 2);
        let app = serve(&Inspector::new(&world.timers).allow_cancel(true)).await;
        let timers = world.timers.clone();
        let draining = actix::spawn(async move { timers.drain_within(ms(5000)).await.len() });
        tokio::task::yield_now().await;
        assert_eq!(get(&app, "wheel").await["state"], "draining");
        assert_eq!(get(&app, &format!("timers/{id}")).await["state"], "waiting");
        assert_eq!(draining.await.unwrap(), 1);
        let wheel = get(&app, "wheel").await;
        assert_eq!((&wheel["state"], &wheel["counters"]["returned"]), (&json!("drained"), &json!(1)));
        assert_eq!(get(&app, "timers").await["timers"], json!([]));
        assert_eq!(cancel(&app, &far.to_string(), Some("cancel")).await.0, 404);

        let arbiter = Arbiter::new();
        let (tell, told) = oneshot::channel();
        arbiter.spawn(async { tell.send(TimerActor::builder().name("gone").start().unwrap()).unwrap() });
        let gone = told.await.unwrap();
        gone.schedule_after(&addr, ms(1000), Note(1));
        arbiter.stop();
        arbiter.join().unwrap();
        let app = serve(&Inspector::new(&gone)).await;
        let wheel = get(&app, "wheel").await;
        assert_eq!((&wheel["state"], &wheel["counters"]["service_stopped"]), (&json!("stopped"), &json!(1)));
        assert_eq!(get(&app, "timer-actors").await["timer_actors"][0]["state"], "stopped");
        assert_eq!(get(&app, "next").await["timers"], json!([]));
    });
}

#[test]
fn the_page_is_one_document_without_outside_resources() {
    paused(async {
        let world = support::World::paused(TimerActor::builder().name("</script><b>"));
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
            assert!(!page.contains("{{"), "all is filled in");
            let addresses = page.match_indices("://").map(|(at, _)| &page[at - 5..(at + 20).min(page.len())]);
            let foreign: Vec<&str> = addresses.filter(|address| !address.contains("www.w3.org")).collect();
            assert_eq!(foreign, Vec::<&str>::new());
            assert!(!page.contains("</script><b>"), "no name of anybody stands in it");
            assert!(!page.contains("innerHTML") && !page.contains("insertAdjacentHTML") && !page.contains("eval("));
            nonces.insert(nonce);
        }
        assert_eq!(nonces.len(), 2, "a new one for each response");
    });
}

/// Names that contain HTML are sent as JSON, which a browser is told not to interpret as another type.
#[test]
fn hostile_names_stay_texts() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let (addr, _log): (Addr<Probe<u64>>, _) = world.probe();
        let hostile = "</script><script>alert(1)</script>\u{2028}\"\\\u{0}";
        let options = TimerOptions::new().key(hostile).group(hostile);
        world.timers.timer(&addr, options).schedule(ms(1000), Note(1));
        let app = serve(&Inspector::new(&world.timers)).await;
        let response = app.call(TestRequest::get().uri("/ops/timers/api/timers")).await;
        assert_eq!(response.headers().get("x-content-type-options").unwrap(), "nosniff");
        assert_eq!(response.headers().get("cache-control").unwrap(), "no-store");
        let body: Value = serde_json::from_slice(&to_bytes(response.into_body()).await.unwrap()).unwrap();
        assert_eq!((&body["timers"][0]["key"], &body["timers"][0]["group"]), (&json!(hostile), &json!(hostile)));
    });
}

/// Returns the response to a request with these headers only.
async fn asked(app: &Served, method: &Method, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let request = TestRequest::default().method(method.clone()).uri(path);
    let request = headers.iter().fold(request, |request, header| request.append_header(*header));
    let (status, body) = content(app.call_as_it_is(request).await).await;
    (status.as_u16(), body)
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
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "0.0.0.0:8080"] {
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

#[test]
fn a_request_names_one_host_that_is_one() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let app = serve(&Inspector::new(&world.timers)).await;
        let path = "/ops/timers/api/wheel";
        for host in ["localhost", "LOCALHOST.:1", "127.9.8.7", "[::1]", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(asked(&app, &Method::GET, path, &[("Host", host)]).await.0, 200, "{host}");
        }
        for host in ["", "a b", "me@localhost", "::1", "localhost:x", "127.1", "localhost, localhost"] {
            let (status, body) = asked(&app, &Method::GET, path, &[("Host", host)]).await;
            assert_eq!((status, &body["error"]), (400, &json!("bad_request")), "{host}");
        }
        assert_eq!(asked(&app, &Method::GET, path, &[]).await.0, 400, "none");
        let both = |one, other| [("Host", one), ("Host", other)];
        assert_eq!(asked(&app, &Method::GET, path, &both("localhost", "evil.example")).await.0, 403);
        assert_eq!(asked(&app, &Method::GET, path, &both("evil.example", "localhost")).await.0, 403);

        // As in HTTP/2, and as an absolute URL.
        let absolute = |host: &str| format!("http://{host}{path}");
        assert_eq!(asked(&app, &Method::GET, &absolute("localhost:8080"), &[]).await.0, 200);
        for (target, headers) in [
            ("evil.example", vec![]),
            ("evil.example", vec![("Host", "localhost")]),
            ("localhost", vec![("Host", "evil.example")]),
        ] {
            let (status, body) = asked(&app, &Method::GET, &absolute(target), &headers).await;
            assert_eq!((status, &body["error"]), (403, &json!("host_not_allowed")), "{target} {headers:?}");
        }
        assert_eq!(asked(&app, &Method::GET, &absolute("me@localhost"), &[]).await.0, 400);
    });
}

#[test]
fn the_application_allows_more_hosts() {
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let inspector = Inspector::new(&world.timers).allow_host("Timers.example.org").unwrap();
        let app = serve(&inspector.allow_host("10.0.0.1:8080").unwrap()).await;
        for (host, status) in [
            ("timers.example.org", 200),
            ("timers.example.org.:8443", 200),
            ("10.0.0.1:8080", 200),
            ("localhost", 200),
            ("example.org", 403),
            ("10.0.0.1", 403),
            ("10.0.0.1:8081", 403),
        ] {
            assert_eq!(asked(&app, &Method::GET, "/ops/timers/api/wheel", &[("Host", host)]).await.0, status, "{host}");
        }
        for text in ["", "https://timers.example.org", "timers.example.org/timers", "*.example.org", "me@example.org"] {
            let rejected = Inspector::new(&world.timers).allow_host(text).unwrap_err();
            assert!(rejected.to_string().contains(text), "{rejected}");
        }
    });
}

#[test]
fn a_cancel_comes_from_the_page_itself_or_from_a_program() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let inspector = Inspector::new(&world.timers).allow_cancel(true);
        let app = serve(&inspector.allow_host("timers.example.org").unwrap()).await;
        let rejected: [&[(&str, &str)]; 11] = [
            &[("Origin", "http://evil.example")],
            &[("Origin", "null")],
            &[("Origin", "")],
            &[("Origin", "http://localhost:3000")],
            &[("Origin", "http://localhost")],
            &[("Origin", "file://localhost:8080")],
            &[("Origin", "https://localhost:8080")],
            &[("Origin", "https://timers.example.org:444")],
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
        let post = [("Host", "localhost"), ("Origin", "http://evil.example")];
        assert_eq!(asked(&app, &Method::POST, "/ops/timers/api/wheel", &post).await.0, 403);
        assert_eq!(
            asked(&app, &Method::GET, "/ops/timers/api/wheel", &post).await.0,
            200,
            "one cannot read the answer"
        );

        let taken: [(&str, &[(&str, &str)]); 7] = [
            ("localhost:8080", &[]),
            ("localhost:8080", &[("Origin", "http://LOCALHOST:8080"), ("Sec-Fetch-Site", "same-origin")]),
            ("localhost:8080", &[("Sec-Fetch-Site", "none")]),
            ("localhost", &[("Origin", "http://localhost")]),
            ("timers.example.org", &[("Origin", "https://timers.example.org")]),
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
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let app = serve(&Inspector::new(&world.timers)).await;
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
            assert_eq!(value("cache-control"), "no-store", "{path} {host}");
            assert_eq!(value("x-content-type-options"), "nosniff");
            assert_eq!(value("cross-origin-resource-policy"), "same-origin");
            assert_eq!(value("referrer-policy"), "no-referrer");
            assert_eq!(value("x-frame-options"), if path.is_empty() { "SAMEORIGIN" } else { "DENY" });
            assert!(value("content-security-policy").contains("default-src 'none'"));
            assert!(value("content-security-policy").contains("frame-ancestors"));
            assert_eq!(response.headers().get("access-control-allow-origin"), None);
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
        let world = support::World::paused(TimerActor::builder());
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
    paused(async {
        let world = support::World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        for number in 0..500 {
            let options = TimerOptions::new().key(format!("{number:01000}")).group("g".repeat(1000));
            world.timers.timer(&addr, options).schedule(ms(1000), Note(number));
        }
        let app = serve(&Inspector::new(&world.timers)).await;
        let ask = || app.call(TestRequest::get().uri("/ops/timers/api/timers?limit=500"));
        let mut unread = Vec::new();
        for _ in 0..12 {
            unread.push(ask().await);
        }
        let (status, read) = content(ask().await).await;
        assert_eq!((status, ids(&read).len()), (StatusCode::OK, 500), "a client that reads gets all");
        assert!(to_bytes(unread.remove(0).into_body()).await.is_err(), "the oldest has been ended");
        let (status, read) = content(unread.pop().unwrap()).await;
        assert_eq!((status, ids(&read).len()), (StatusCode::OK, 500), "the latest waits to be read");
    });
}

/// For example those of durable timers.
#[test]
fn internal_timers_on_the_clock_of_a_timer_actor_are_not_shown() {
    #[derive(Message)]
    #[rtype(result = "()")]
    struct Renew;

    struct Keeper;

    impl Actor for Keeper {
        type Context = Context<Self>;
    }

    impl Handler<Renew> for Keeper {
        type Result = ();

        fn handle(&mut self, _: Renew, _: &mut Context<Self>) {}
    }

    paused(async {
        let given = TimerActor::builder().install().unwrap();
        let internal = InternalTimers::start(builder_on_clock_of(&given)).unwrap();
        for _ in 0..10 {
            internal.schedule_after(Target::from(&Keeper.start()).strong(), ms(1000), Renew);
        }
        assert_eq!(internal.snapshot().counters.pending, 10);
        let app = serve(&Inspector::new(&given)).await;
        assert_eq!(get(&app, "timers").await["timers"], json!([]));
        let wheel = get(&app, "wheel").await;
        assert_eq!((&wheel["counters"]["pending"], &wheel["counters"]["accepted"]), (&json!(0), &json!(0)), "{wheel}");
        assert_eq!((&wheel["actors"], sum(&wheel["levels"], "entries")), (&json!(0), 0), "{wheel}");
    });
}
