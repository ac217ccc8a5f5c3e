//! Durable timers over HTTP.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context as Polling, Waker};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DecodeError, Durable, DurableId, DurableMessage, DurableOptions, DurableTimers, HandlerError, MemoryStore,
    RetryPolicy, RouteOptions, Schedule,
};
use actix_timers_inspector::Inspector;
use actix_web::HttpRequest;
use actix_web::test::TestRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::ms;

use super::pages::{Served, answer, get, rejection, serve};

#[derive(Serialize, Deserialize)]
enum Work {
    Succeed,
    Fail,
    FailForGood,
    Hang,
    /// Cannot be decoded.
    Garble,
}

impl DurableMessage for Work {
    const NAME: &'static str = "work";

    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        match Self::decode_json(version, payload)? {
            Self::Garble => Err(DecodeError::malformed("<i>no letter</i>")),
            work => Ok(work),
        }
    }
}

struct Worker;

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Durable<Work>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, work: Durable<Work>, _: &mut Context<Self>) -> Self::Result {
        work.note_result("<i>noted</i>");
        let outcome = match &*work {
            Work::Succeed | Work::Garble => Ok(()),
            Work::Fail => Err(HandlerError::new("no connection")),
            Work::FailForGood => Err(HandlerError::permanent("<b>no address</b>")),
            Work::Hang => return Box::pin(std::future::pending()),
        };
        Box::pin(std::future::ready(outcome))
    }
}

/// Runs a test with durable timers whose actor is connected to the route `mail`.
fn with_durable(test: impl AsyncFnOnce(DurableTimers, ManualClock)) {
    support::paused(async {
        let clock = ManualClock::new();
        let retry =
            RetryPolicy::default().initial_delay(Duration::from_secs(60)).jitter_percent(0).timeout(Duration::MAX);
        let options = RouteOptions::new().retry(retry).keep_past(Duration::from_secs(60));
        let timers = DurableTimers::builder(MemoryStore::new())
            .name("reminders")
            .route_with::<Work>("mail", Worker.start(), options)
            .open_route::<Work>("post")
            .clock(clock.clone())
            .start()
            .unwrap();
        test(timers.clone(), clock).await;
        timers.stop_within(Duration::ZERO).await.unwrap();
    });
}

async fn schedule(timers: &DurableTimers, work: Work, delay: Duration) -> DurableId {
    timers.schedule_after("mail", delay, work).await.unwrap().id()
}

fn ids(list: &Value) -> Vec<String> {
    list["timers"].as_array().unwrap().iter().map(|timer| timer["id"].as_str().unwrap().to_owned()).collect()
}

fn short(id: DurableId) -> String {
    id.to_string()[..23].to_owned()
}

/// Sends a request that may change something.
async fn change(app: &Served, request: TestRequest, path: &str) -> (u16, Value) {
    let request = request.uri(&format!("/ops/timers/api/durable/{path}")).insert_header(("X-Actix-Timers", "cancel"));
    let (status, body) = answer(app, request).await;
    (status.as_u16(), body)
}

#[test]
fn durable_timers_are_listed_by_their_states() {
    with_durable(async |timers, clock| {
        let failing = schedule(&timers, Work::Fail, ms(1)).await;
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        let dead = schedule(&timers, Work::FailForGood, ms(1)).await;
        let complete = schedule(&timers, Work::Succeed, ms(2)).await;
        let parked = schedule(&timers, Work::Garble, ms(1)).await;
        clock.advance(ms(1000)).await;
        let keyed = Schedule::at_fixed_rate("mail", Duration::from_secs(3600), Work::Succeed)
            .options(DurableOptions::new().if_absent("order 7"));
        let keyed = timers.schedule(keyed).await.unwrap().id();
        let other = timers.schedule_after("post", Duration::from_secs(7200), Work::Succeed).await.unwrap().id();
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;

        assert_eq!(get(&app, "timer-actors").await["durable"], json!(["reminders"]));
        let counts = json!({ "durable": "reminders", "state": "open", "pending": 4, "parked": 1, "dead_letters": 1, "is_limited": false, "pauses": [] });
        assert_eq!(get(&app, "durable").await["durable"], json!([counts]));

        let all = get(&app, "durable/timers").await;
        assert_eq!((&all["durable"], &all["next"], &all["damaged"]), (&json!("reminders"), &Value::Null, &json!(0)));
        assert_eq!(ids(&all), [hanging, failing, keyed, other].map(short), "by due time");
        for (filter, expected) in [
            ("state=in_flight", vec![hanging]),
            ("state=retry", vec![failing]),
            ("state=pending", vec![keyed, other]),
            ("state=dead", vec![dead]),
            ("state=parked", vec![parked]),
            ("state=finished", vec![dead, complete]),
            ("key_prefix=order", vec![keyed]),
            ("key_prefix=7", vec![]),
            ("message_type=mail", vec![]),
            ("route=post", vec![other]),
            ("key=order+7", vec![keyed]),
            ("route=mail&key=order+7", vec![keyed]),
            ("due_within=60", vec![hanging, failing]),
            ("due_after=60&due_within=3600", vec![keyed]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(short).collect();
            assert_eq!(ids(&get(&app, &format!("durable/timers?{filter}")).await), expected, "{filter}");
        }

        let retry = &get(&app, "durable/timers?state=retry").await["timers"][0];
        assert_eq!((&retry["state"], &retry["attempt"], &retry["reason"]), (&json!("retry"), &json!(2), &Value::Null));
        assert_eq!((&retry["due_in_seconds"], &retry["repeats"]), (&json!(59.001), &Value::Null));
        let repeating = get(&app, &format!("durable/timers/{keyed}")).await;
        assert_eq!((&repeating["durable"], &repeating["id"]), (&json!("reminders"), &json!(short(keyed))));
        assert_eq!((&repeating["key"], &repeating["route"]), (&json!("order 7"), &json!("mail")));
        assert_eq!((&repeating["repetition"], &repeating["message_type"]), (&json!(1), &json!("work")));
        assert_eq!(
            (&repeating["repeats"], &repeating["message_bytes"]),
            (&json!({ "period_seconds": 3600.0 }), &json!(9))
        );
        let letter = get(&app, &format!("durable/timers/{dead}")).await;
        assert_eq!((&letter["state"], &letter["reason"]), (&json!("dead"), &json!("<b>no address</b>")));
        let parked = get(&app, &format!("durable/timers/{parked}")).await;
        assert_eq!((&parked["state"], &parked["dead_since_seconds"]), (&json!("parked"), &Value::Null));
        assert!(parked["reason"].as_str().unwrap().contains("<i>no letter</i>"), "{parked}");
        assert_eq!(get(&app, "durable/count?state=parked").await["count"], 1);
        let finished = get(&app, "durable/timers?state=finished").await;
        let [failed, complete] = [0, 1].map(|at| &finished["timers"][at]);
        assert_eq!((&failed["reason"], &failed["finished"]["outcome"]), (&json!("<b>no address</b>"), &json!("dead")));
        assert_eq!(complete["finished"]["result"], "<i>noted</i>");
    });
}

#[test]
fn the_schedule_of_a_timer_is_shown() {
    with_durable(async |timers, _| {
        let minute = Duration::from_secs(60);
        let delay = Schedule::with_fixed_delay("mail", minute, Work::Succeed);
        let id = timers.schedule(delay.options(DurableOptions::new().jitter(ms(500)).spread())).await.unwrap().id();
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;
        let shown = get(&app, &format!("durable/timers/{id}")).await;
        assert_eq!(shown["repeats"], json!({ "delay_seconds": 60.0, "jitter_seconds": 0.5 }));
    });
}

#[test]
fn long_lists_come_in_parts_and_a_cursor_reveals_no_id() {
    with_durable(async |timers, _| {
        let mut all = BTreeSet::new();
        for number in 0..50 {
            all.insert(schedule(&timers, Work::Succeed, Duration::from_secs(60 + number / 10)).await);
        }
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true)).await;
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let part = get(&app, &format!("durable/timers?limit=7&cursor={cursor}")).await;
            assert!(ids(&part).len() <= 7);
            found.extend(ids(&part));
            match part["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
            let shown = found.iter().map(|id| id.replace('-', "")[16..].to_owned());
            assert!(shown.into_iter().all(|tail| !cursor.contains(&tail)), "{cursor}");
        }
        assert!(found.iter().map(|id| id.parse::<DurableId>().unwrap()).eq(timers_by_due(&all)), "each once, in order");
        for cursor in ["x", "1-", "1-zz", "-", "ffffffffffffffffff-0"] {
            let (status, error, _) = rejection(&app, &format!("api/durable/timers?cursor={cursor}")).await;
            assert_eq!((status, &*error), (400, "bad_request"), "{cursor}");
        }
    });
}

/// A list begins after any accepted position, so one made up by a visitor would reveal a bit of an id.
#[test]
fn a_changed_or_foreign_cursor_is_rejected() {
    with_durable(async |timers, _| {
        for _ in 0..2 {
            schedule(&timers, Work::Succeed, Duration::from_secs(60)).await;
        }
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;
        let other = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;
        let next = get(&app, "durable/timers?limit=1").await["next"].as_str().unwrap().to_owned();
        let list = |cursor: &str| format!("durable/timers?limit=1&cursor={cursor}");
        assert_eq!(ids(&get(&app, &list(&next)).await).len(), 1);
        for (at, digit) in next.char_indices().filter(|(_, letter)| *letter != '-') {
            for bit in 0..4 {
                let digit = digit.to_digit(16).unwrap() ^ (1 << bit);
                let changed = format!("{}{digit:x}{}", &next[..at], &next[at + 1..]);
                let (status, error, _) = rejection(&app, &format!("api/{}", list(&changed))).await;
                assert_eq!((status, &*error), (400, "bad_request"), "{changed}");
            }
        }
        let (status, error, _) = rejection(&other, &format!("api/{}", list(&next))).await;
        assert_eq!((status, &*error), (400, "bad_request"));
    });
}

/// Due together, timers are in the order of their ids.
fn timers_by_due(all: &BTreeSet<DurableId>) -> Vec<DurableId> {
    let mut all: Vec<DurableId> = all.iter().copied().collect();
    all.sort_by_key(|id| (id.first_due(), *id));
    all
}

#[test]
fn changes_must_be_allowed_to_requeue_and_discard_dead_letters() {
    with_durable(async |timers, clock| {
        let first = schedule(&timers, Work::FailForGood, ms(1)).await;
        let second = schedule(&timers, Work::FailForGood, ms(1)).await;
        let waiting = schedule(&timers, Work::Succeed, Duration::from_secs(60)).await;
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        clock.advance(ms(10)).await;
        let inspector = Inspector::of_all_arbiters().add_durable(&timers);
        let app = serve(&inspector).await;
        for (request, path) in [
            (TestRequest::post(), format!("dead-letters/{first}")),
            (TestRequest::delete(), format!("dead-letters/{first}")),
            (TestRequest::delete(), format!("timers/{waiting}")),
        ] {
            let (status, body) = change(&app, request, &path).await;
            assert_eq!((status, &body["error"]), (403, &json!("cancel_not_allowed")), "{path}");
        }

        let app = serve(&inspector.allow_cancel(true)).await;
        let without = TestRequest::post().uri(&format!("/ops/timers/api/durable/dead-letters/{first}"));
        assert_eq!(answer(&app, without).await.1["error"], "no_cancel_header");
        let elsewhere = TestRequest::post().insert_header(("Origin", "http://evil.example"));
        let (status, body) = change(&app, elsewhere, &format!("dead-letters/{first}")).await;
        assert_eq!((status, &body["error"]), (403, &json!("origin_not_allowed")));
        assert_eq!(timers.counts().await.unwrap().dead, 2, "nothing has changed");

        let letter = |id| format!("dead-letters/{id}");
        let (status, body) = change(&app, TestRequest::post(), &letter(first)).await;
        assert_eq!((status, body), (200, json!({ "id": first, "outcome": "requeued" })));
        clock.advance(ms(10)).await;
        let again = get(&app, &format!("durable/timers/{first}")).await;
        assert_eq!((&again["id"], &again["attempt"]), (&json!(first), &json!(2)), "it was delivered again");
        let (status, body) = change(&app, TestRequest::delete(), &letter(second)).await;
        assert_eq!((status, body), (200, json!({ "id": second, "outcome": "discarded" })));
        assert_eq!(change(&app, TestRequest::delete(), &letter(second)).await.0, 404);
        assert_eq!(change(&app, TestRequest::post(), &letter(waiting)).await.0, 404, "not a dead letter");
        assert_eq!(change(&app, TestRequest::post(), "dead-letters/x").await.0, 400);

        let (status, body) = change(&app, TestRequest::delete(), &format!("timers/{waiting}")).await;
        assert_eq!((status, body), (200, json!({ "id": waiting, "outcome": "cancelled" })));
        let (status, body) = change(&app, TestRequest::delete(), &format!("timers/{hanging}")).await;
        assert_eq!((status, body), (409, json!({ "id": hanging, "outcome": "in_progress" })));
        let (status, _, message) = rejection(&app, &format!("api/durable/timers/{waiting}")).await;
        assert!(status == 404 && message.starts_with(&format!("no durable timer has the id {waiting}")), "{message}");
    });
}

/// Schedules timers of two tenants with keys.
async fn schedule_keyed(timers: &DurableTimers) {
    for number in 0..6 {
        let tenant = if number % 2 == 0 { "7" } else { "8" };
        let options = DurableOptions::new().if_absent(format!("order%{number}")).header("tenant", tenant);
        let work = Schedule::after("mail", Duration::from_secs(60 + number), Work::Succeed);
        timers.schedule(work.options(options)).await.unwrap();
    }
}

#[test]
fn a_cancel_by_filter_needs_the_count_that_was_confirmed() {
    with_durable(async |timers, clock| {
        schedule_keyed(&timers).await;
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        clock.advance(ms(10)).await;
        let inspector = Inspector::of_all_arbiters().add_durable(&timers);
        let filter = "timers?header_name=tenant&header_value=7&key_prefix=order%25";
        let app = serve(&inspector).await;
        let (status, body) = change(&app, TestRequest::delete(), &format!("{filter}&count=9")).await;
        assert_eq!((status, &body["error"]), (403, &json!("cancel_not_allowed")));
        let app = serve(&inspector.allow_cancel(true)).await;
        let without = TestRequest::delete().uri("/ops/timers/api/durable/timers?count=9");
        assert_eq!(answer(&app, without).await.1["error"], "no_cancel_header");

        let counted = get(&app, "durable/count?header_name=tenant&header_value=7&key_prefix=order%25").await;
        assert_eq!(counted, json!({ "durable": "reminders", "count": 3, "is_limited": false }));
        let (status, body) = change(&app, TestRequest::delete(), filter).await;
        assert_eq!((status, &body["message"]), (400, &json!("`count` is missing")));
        let (status, body) = change(&app, TestRequest::delete(), &format!("{filter}&count=2")).await;
        assert_eq!((status, &body["error"]), (409, &json!("more_than_confirmed")));
        for state in ["pending", "retry", "in_flight", "dead"] {
            let (status, body) = change(&app, TestRequest::delete(), &format!("timers?state={state}&count=9")).await;
            assert_eq!((status, &body["error"]), (400, &json!("bad_request")), "{state}");
        }
        assert_eq!(timers.counts().await.unwrap().pending, 7, "nothing has changed");

        let (status, body) = change(&app, TestRequest::delete(), &format!("{filter}&count=3")).await;
        let outcome = json!({ "cancelled": 3, "in_progress": 0, "busy": 0 });
        assert_eq!((status, body), (200, json!({ "durable": "reminders", "outcome": outcome })));
        let (_, body) = change(&app, TestRequest::delete(), "timers?route=mail&message_type=work&count=4").await;
        assert_eq!(body["outcome"], json!({ "cancelled": 3, "in_progress": 1, "busy": 0 }));
        assert_eq!(timers.get(hanging).await.unwrap(), None);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn dead_letters_of_a_filter_are_requeued_and_discarded() {
    with_durable(async |timers, clock| {
        for _ in 0..4 {
            schedule(&timers, Work::FailForGood, ms(1)).await;
        }
        clock.advance(ms(10)).await;
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true)).await;
        assert_eq!(get(&app, "durable/count?state=dead").await["count"], 4);
        assert_eq!(change(&app, TestRequest::post(), "dead-letters?count=4").await.0, 400, "the state is missing");
        assert_eq!(change(&app, TestRequest::delete(), "dead-letters?state=finished&count=4").await.0, 400);
        let (status, body) = change(&app, TestRequest::post(), "dead-letters?state=dead&count=4").await;
        assert_eq!((status, &body["outcome"]), (200, &json!({ "requeued": 4 })));
        clock.advance(ms(10)).await;
        let (status, body) = change(&app, TestRequest::delete(), "dead-letters?state=dead&route=mail&count=4").await;
        assert_eq!((status, &body["outcome"]), (200, &json!({ "discarded": 4 })));
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn each_change_is_reported_with_its_user_and_outcome() {
    with_durable(async |timers, clock| {
        let dead = schedule(&timers, Work::FailForGood, ms(1)).await;
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        clock.advance(ms(10)).await;
        schedule_keyed(&timers).await;
        let (tell, told) = std::sync::mpsc::channel();
        let user = |request: &HttpRequest| Some(request.headers().get("X-User")?.to_str().ok()?.to_owned());
        let inspector = Inspector::of_all_arbiters().add_durable(&timers).user(user).audit(move |change| {
            tell.send((change.user.clone(), change.action, change.target.clone(), change.outcome.clone())).unwrap();
        });
        let none = || assert!(told.try_recv().is_err(), "nothing has changed");
        let one = || {
            let (user, action, target, outcome) = told.try_recv().unwrap();
            (user.unwrap_or_default(), action, target, outcome)
        };
        let by = |request: TestRequest| request.insert_header(("X-User", "Ada"));
        let letter = format!("dead-letters/{dead}");
        change(&serve(&inspector).await, by(TestRequest::post()), &letter).await;
        none();
        let app = serve(&inspector.allow_cancel(true)).await;
        change(&app, by(TestRequest::delete()), "timers?key_prefix=order&count=1").await;
        none();
        change(&app, by(TestRequest::delete()), &format!("timers/{dead}")).await;
        none();

        change(&app, by(TestRequest::post()), &letter).await;
        assert_eq!(one(), ("Ada".to_owned(), "requeue", dead.to_string(), "requeued".to_owned()));
        change(&app, TestRequest::delete(), &format!("timers/{hanging}")).await;
        assert_eq!(one(), (String::new(), "cancel", hanging.to_string(), "in_progress".to_owned()));
        clock.advance(ms(10)).await;
        change(&app, by(TestRequest::delete()), &letter).await;
        assert_eq!(one(), ("Ada".to_owned(), "discard", dead.to_string(), "discarded".to_owned()));
        change(&app, by(TestRequest::delete()), "timers?key_prefix=order%25&count=6").await;
        let outcome = r#"{"busy":0,"cancelled":6,"in_progress":0}"#.to_owned();
        assert_eq!(one(), ("Ada".to_owned(), "cancel", "key_prefix=order%25&count=6".to_owned(), outcome));
        for (request, action, outcome) in
            [(TestRequest::post(), "pause", "paused"), (TestRequest::delete(), "resume", "resumed")]
        {
            change(&app, by(request), "pauses?kind=route&name=mail").await;
            assert_eq!(one(), ("Ada".to_owned(), action, "route mail".to_owned(), outcome.to_owned()));
            let pauses = timers.pauses().await.unwrap();
            assert!(pauses.iter().all(|pause| pause.who.as_deref() == Some("Ada")), "{pauses:?}");
        }
        none();
        timers.stop_within(Duration::ZERO).await.unwrap();
        assert_eq!(change(&app, by(TestRequest::delete()), &format!("timers/{hanging}")).await.0, 503);
        assert!(one().3.starts_with("failed: "), "its outcome may not be known");
    });
}

#[test]
fn a_change_whose_client_leaves_is_made_and_reported() {
    support::in_real_time(async {
        let disk = MemoryDisk::new();
        let timers = DurableTimers::builder(disk.open()).open_route::<Work>("mail").start().unwrap();
        schedule(&timers, Work::Succeed, Duration::from_secs(3600)).await;
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        let inspector = Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true);
        let inspector = inspector.audit(move |change| {
            tell.lock().unwrap().take().unwrap().send(change.outcome.clone()).unwrap();
        });
        let app = serve(&inspector).await;
        let held = disk.hold_commits();
        {
            let mut cancel = Box::pin(change(&app, TestRequest::delete(), "timers?count=1"));
            while disk.held() == 0 {
                assert!(is_pending(cancel.as_mut()));
                tokio::task::yield_now().await;
            }
        }
        drop(held);
        assert_eq!(told.await.unwrap(), r#"{"busy":0,"cancelled":1,"in_progress":0}"#);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_route_is_paused_and_resumed_where_changes_are_allowed() {
    with_durable(async |timers, clock| {
        let inspector = Inspector::of_all_arbiters().add_durable(&timers);
        let path = "pauses?kind=route&name=mail&why=no+mail";
        let app = serve(&inspector).await;
        let (status, body) = change(&app, TestRequest::post(), path).await;
        assert_eq!((status, &body["error"]), (403, &json!("cancel_not_allowed")));
        let app = serve(&inspector.allow_cancel(true)).await;
        assert_eq!(change(&app, TestRequest::post(), path).await, (200, json!({ "outcome": "paused" })));
        let pause =
            json!({ "kind": "route", "name": "mail", "until_seconds": null, "who": "inspector", "why": "no mail" });
        assert_eq!(get(&app, "durable").await["durable"][0]["pauses"], json!([pause]));
        let waiting = schedule(&timers, Work::Succeed, ms(1)).await;
        clock.advance(ms(10)).await;
        assert_eq!(get(&app, &format!("durable/timers/{waiting}")).await["state"], "pending");
        assert_eq!(change(&app, TestRequest::delete(), path).await, (200, json!({ "outcome": "resumed" })));
        assert_eq!(change(&app, TestRequest::delete(), path).await, (200, json!({ "outcome": "not_paused" })));
        clock.advance(ms(10)).await;
        assert_eq!(timers.get(waiting).await.unwrap(), None);
        for path in ["pauses?kind=route&name=male", "pauses?kind=timer&name=mail", "pauses?kind=node"] {
            assert_eq!(change(&app, TestRequest::post(), path).await.0, 400, "{path}");
        }
        let (status, _) = change(&app, TestRequest::post(), "pauses?kind=node&name=reminders").await;
        assert_eq!((status, timers.pauses().await.unwrap().len()), (200, 1));
    });
}

#[test]
fn invalid_requests_and_closed_stores_have_a_reason() {
    with_durable(async |timers, _| {
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).add_durable(&timers)).await;
        assert_eq!(get(&app, "timer-actors").await["durable"], json!(["reminders", "reminders (2)"]));
        for (path, status, error) in [
            ("durable/timers?state=due", 400, "bad_request"),
            ("durable/timers?limit=0", 400, "bad_request"),
            ("durable/timers?durable=others", 404, "unknown_durable"),
            ("durable/timers/7", 400, "bad_request"),
            ("durable/letters", 404, "unknown_path"),
        ] {
            let rejected = rejection(&app, &format!("api/{path}")).await;
            assert_eq!((rejected.0, &*rejected.1), (status, error), "{path}");
        }
        timers.stop().await.unwrap();
        let closed = get(&app, "durable").await;
        assert_eq!(
            (&closed["durable"][1]["state"], &closed["durable"][1]["pending"]),
            (&json!("closed"), &Value::Null)
        );
        let rejected = rejection(&app, "api/durable/timers").await;
        assert_eq!((rejected.0, &*rejected.1), (503, "store_failed"));
    });
}

#[test]
fn a_hanging_store_delays_neither_the_wheel_nor_another_store() {
    support::in_real_time(async {
        let disk = MemoryDisk::new();
        let start = |store: MemoryStore, name: &str| {
            DurableTimers::builder(store).name(name).open_route::<Work>("mail").start().unwrap()
        };
        let (slow, fast) = (start(disk.open(), "slow"), start(MemoryStore::new(), "fast"));
        let letter = schedule(&fast, Work::Succeed, Duration::from_secs(3600)).await;
        let own = TimerActor::builder().start().unwrap();
        let inspector = Inspector::new(&own).add_durable(&slow).add_durable(&fast).allow_cancel(true);
        let app = serve(&inspector).await;

        let held = disk.hold_commits();
        let mut writing = Box::pin(schedule(&slow, Work::Succeed, Duration::from_secs(3600)));
        assert!(is_pending(writing.as_mut()));
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        let asked = |path: &str| TestRequest::get().uri(&format!("/ops/timers/api/{path}"));
        let paths = ["durable?durable=slow", "durable/timers?durable=slow", "durable/timers?durable=slow&state=dead"];
        let waiting = paths.iter().cycle().take(256).map(|path| Box::pin(answer(&app, asked(path))));
        let mut waiting: Vec<_> = waiting.collect();
        assert!(waiting.iter_mut().all(|request| is_pending(request.as_mut())));

        let rejected = rejection(&app, "api/durable?durable=slow").await;
        assert_eq!((rejected.0, &*rejected.1), (503, "busy"));
        for path in ["timer-actors", "wheel", "next", "timers", "durable?durable=fast", "durable/timers?durable=fast"] {
            get(&app, path).await;
        }
        let of_fast = |path: &str| format!("{path}/{letter}?durable=fast");
        assert_eq!(get(&app, &of_fast("durable/timers")).await["durable"], "fast");
        assert_eq!(change(&app, TestRequest::delete(), &of_fast("timers")).await.0, 200);

        drop(held);
        writing.await;
        for request in waiting {
            assert_eq!(request.await.0.as_u16(), 200);
        }
        let counts = get(&app, "durable").await;
        assert_eq!((&counts["durable"][0]["pending"], &counts["durable"][1]["pending"]), (&json!(1), &json!(0)));
        slow.stop().await.unwrap();
        fast.stop().await.unwrap();
    });
}

/// Polls a future once.
fn is_pending(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Polling::from_waker(Waker::noop())).is_pending()
}
