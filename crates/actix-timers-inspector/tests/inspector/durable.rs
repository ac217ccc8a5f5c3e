//! Durable timers over HTTP.

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
use support::durable::behind;
use support::{Gate, ms};

use super::pages::{Served, assert_has, content, get, ids, rejection, serve, short};

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

/// Sends a request that may change something.
async fn change(app: &Served, request: TestRequest, path: &str) -> (u16, Value) {
    let request = request.uri(&format!("/ops/timers/api/durable/{path}")).insert_header(("X-Actix-Timers", "cancel"));
    content(app.call(request).await).await
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
        let hour = Duration::from_secs(3600);
        let keyed = Schedule::at_fixed_rate("mail", hour, Work::Succeed);
        let keyed = keyed.options(DurableOptions::new().if_absent("order 7"));
        let keyed = timers.schedule(keyed).await.unwrap().id();
        let other = Schedule::with_fixed_delay("post", 2 * hour, Work::Succeed);
        let other = other.options(DurableOptions::new().jitter(ms(500)));
        let other = timers.schedule(other).await.unwrap().id();
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;

        assert_eq!(get(&app, "timer-actors").await["durable"], json!(["reminders"]));
        let counts = json!({
            "durable": "reminders", "state": "open", "pending": 4, "parked": 1, "dead_letters": 1,
            "is_limited": false, "pauses": []
        });
        assert_eq!(get(&app, "durable").await["durable"], json!([counts]));

        let all = get(&app, "durable/timers").await;
        assert_has(&all, json!({ "durable": "reminders", "next": null, "damaged": 0 }));
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
        let shown =
            json!({ "state": "retry", "attempt": 2, "reason": null, "due_in_seconds": 59.001, "repeats": null });
        assert_has(retry, shown);
        for (id, shown) in [
            (
                keyed,
                json!({
                    "durable": "reminders", "id": short(keyed), "key": "order 7", "route": "mail", "repetition": 1,
                    "message_type": "work", "repeats": { "period_seconds": 3600.0 }, "message_bytes": 9
                }),
            ),
            (other, json!({ "repeats": { "delay_seconds": 7200.0, "jitter_seconds": 0.5 } })),
            (dead, json!({ "state": "dead", "reason": "<b>no address</b>" })),
            (parked, json!({ "state": "parked", "dead_since_seconds": null })),
        ] {
            assert_has(&get(&app, &format!("durable/timers/{id}")).await, shown);
        }
        let parked = get(&app, &format!("durable/timers/{parked}")).await;
        assert!(parked["reason"].as_str().unwrap().contains("<i>no letter</i>"), "{parked}");
        assert_eq!(get(&app, "durable/count?state=parked").await["count"], 1);
        let finished = get(&app, "durable/timers?state=finished").await;
        let [failed, complete] = [0, 1].map(|at| &finished["timers"][at]);
        assert_eq!((&failed["reason"], &failed["finished"]["outcome"]), (&json!("<b>no address</b>"), &json!("dead")));
        assert_eq!(complete["finished"]["result"], "<i>noted</i>");
    });
}

/// A list begins after any accepted position, so one made up by a visitor would reveal a bit of an id.
#[test]
fn long_lists_come_in_parts_and_a_cursor_reveals_no_id() {
    with_durable(async |timers, _| {
        let mut all = Vec::new();
        for number in 0..50 {
            all.push(schedule(&timers, Work::Succeed, Duration::from_secs(60 + number / 10)).await);
        }
        // Due together, timers are in the order of their ids.
        all.sort_by_key(|id| (id.first_due(), *id));
        let inspector = Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true);
        let (app, mut wrong) = (serve(&inspector).await, vec![String::from("x"), String::from("1-zz")]);
        let (mut found, mut cursor) = (Vec::new(), Some(String::new()));
        while let Some(from) = cursor {
            let part = get(&app, &format!("durable/timers?limit=7&cursor={from}")).await;
            assert!(ids(&part).len() <= 7);
            found.extend(ids(&part));
            cursor = part["next"].as_str().map(str::to_owned);
            if let Some(next) = &cursor {
                let mut shown = found.iter().map(|id| id.replace('-', "")[16..].to_owned());
                assert!(shown.all(|tail| !next.contains(&tail)), "{next}");
                let (rest, last) = next.split_at(next.len() - 1);
                wrong.push(format!("{rest}{}", if last == "0" { 1 } else { 0 }));
            }
        }
        assert!(found.iter().map(|id| id.parse::<DurableId>().unwrap()).eq(all), "each once, in order");
        // That of another server.
        let other = serve(&Inspector::of_all_arbiters().add_durable(&timers)).await;
        wrong.push(get(&other, "durable/timers?limit=1").await["next"].as_str().unwrap().to_owned());
        for cursor in wrong {
            let (status, error, _) = rejection(&app, &format!("api/durable/timers?cursor={cursor}")).await;
            assert_eq!((status, &*error), (400, "bad_request"), "{cursor}");
        }
    });
}

/// The user, action, target and outcome of a change.
type Reported = (Option<String>, &'static str, String, String);

/// Returns an inspector that reports changes.
fn reporting(timers: &DurableTimers) -> (Inspector, impl Fn() -> Option<Reported> + use<>) {
    let (tell, told) = std::sync::mpsc::channel();
    let user = |request: &HttpRequest| Some(request.headers().get("X-User")?.to_str().ok()?.to_owned());
    let inspector = Inspector::of_all_arbiters().add_durable(timers).user(user).audit(move |change| {
        tell.send((change.user.clone(), change.action, change.target.clone(), change.outcome.clone())).unwrap();
    });
    (inspector, move || told.try_recv().ok())
}

fn by_ada(action: &'static str, target: impl ToString, outcome: &str) -> Option<Reported> {
    Some((Some("Ada".to_owned()), action, target.to_string(), outcome.to_owned()))
}

#[test]
fn changes_are_made_and_reported_where_they_are_allowed() {
    with_durable(async |timers, clock| {
        let first = schedule(&timers, Work::FailForGood, ms(1)).await;
        let second = schedule(&timers, Work::FailForGood, ms(1)).await;
        let waiting = schedule(&timers, Work::Succeed, Duration::from_secs(60)).await;
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        clock.advance(ms(10)).await;
        let (inspector, reported) = reporting(&timers);
        let (post, delete) = (TestRequest::post, TestRequest::delete);
        let changes = [
            (post as fn() -> TestRequest, format!("dead-letters/{first}")),
            (delete, format!("dead-letters/{first}")),
            (delete, format!("timers/{waiting}")),
            (delete, "timers?count=9".to_owned()),
            (post, "dead-letters?state=dead&count=9".to_owned()),
            (delete, "dead-letters?state=dead&count=9".to_owned()),
            (post, "pauses?kind=route&name=mail".to_owned()),
            (delete, "pauses?kind=route&name=mail".to_owned()),
        ];
        let [closed, app] = [serve(&inspector).await, serve(&inspector.allow_cancel(true)).await];
        for (request, path) in &changes {
            let without = request().uri(&format!("/ops/timers/api/durable/{path}"));
            let foreign = request().insert_header(("Origin", "http://evil.example"));
            for ((status, body), error) in [
                (change(&closed, request(), path).await, "cancel_not_allowed"),
                (change(&app, foreign, path).await, "origin_not_allowed"),
                (content(app.call(without).await).await, "no_cancel_header"),
            ] {
                assert_eq!((status, &body["error"]), (403, &json!(error)), "{path}");
            }
        }
        assert!(timers.counts().await.unwrap().dead == 2 && reported().is_none(), "nothing has changed");

        let ada = |request: fn() -> TestRequest| request().insert_header(("X-User", "Ada"));
        let letter = |id| format!("dead-letters/{id}");
        let (status, body) = change(&app, ada(post), &letter(first)).await;
        assert_eq!((status, body), (200, json!({ "id": first, "outcome": "requeued" })));
        assert_eq!(reported(), by_ada("requeue", first, "requeued"));
        clock.advance(ms(10)).await;
        let again = get(&app, &format!("durable/timers/{first}")).await;
        assert_eq!((&again["id"], &again["attempt"]), (&json!(first), &json!(2)), "it was delivered again");
        let (status, body) = change(&app, ada(delete), &letter(second)).await;
        assert_eq!((status, body), (200, json!({ "id": second, "outcome": "discarded" })));
        assert_eq!(reported(), by_ada("discard", second, "discarded"));
        assert_eq!(change(&app, delete(), &letter(second)).await.0, 404);
        assert_eq!(change(&app, post(), "dead-letters/x").await.0, 400);
        assert_eq!(reported(), None);

        for (id, status, outcome) in [(waiting, 200, "cancelled"), (hanging, 409, "in_progress")] {
            let answer = change(&app, delete(), &format!("timers/{id}")).await;
            assert_eq!(answer, (status, json!({ "id": id, "outcome": outcome })));
            assert_eq!(reported(), Some((None, "cancel", id.to_string(), outcome.to_owned())));
        }
        let (status, _, message) = rejection(&app, &format!("api/durable/timers/{waiting}")).await;
        assert!(status == 404 && message.starts_with(&format!("no durable timer has the id {waiting}")), "{message}");
        timers.stop_within(Duration::ZERO).await.unwrap();
        assert_eq!(change(&app, delete(), &format!("timers/{hanging}")).await.0, 503);
        assert!(reported().unwrap().3.starts_with("failed: "), "its outcome may not be known");
    });
}

#[test]
fn a_change_by_filter_needs_the_count_that_was_confirmed() {
    with_durable(async |timers, clock| {
        for number in 0..6 {
            let tenant = if number % 2 == 0 { "7" } else { "8" };
            let options = DurableOptions::new().if_absent(format!("order%{number}")).header("tenant", tenant);
            let work = Schedule::after("mail", Duration::from_secs(60 + number), Work::Succeed);
            timers.schedule(work.options(options)).await.unwrap();
        }
        let hanging = schedule(&timers, Work::Hang, ms(1)).await;
        for _ in 0..4 {
            schedule(&timers, Work::FailForGood, ms(1)).await;
        }
        clock.advance(ms(10)).await;
        let (inspector, reported) = reporting(&timers);
        let app = serve(&inspector.allow_cancel(true)).await;
        let ada = |request: TestRequest| request.insert_header(("X-User", "Ada"));
        let (post, delete) = (TestRequest::post, TestRequest::delete);
        let filter = "header_name=tenant&header_value=7&key_prefix=order%25";
        let counted = get(&app, &format!("durable/count?{filter}")).await;
        assert_eq!(counted, json!({ "durable": "reminders", "count": 3, "is_limited": false }));
        assert_eq!(get(&app, "durable/count?state=dead").await["count"], 4);
        for (request, path, status, error) in [
            (delete(), format!("timers?{filter}"), 400, "bad_request"),
            (delete(), format!("timers?{filter}&count=2"), 409, "more_than_confirmed"),
            (delete(), "timers?state=pending&count=9".to_owned(), 400, "bad_request"),
            (delete(), "timers?state=retry&count=9".to_owned(), 400, "bad_request"),
            (delete(), "timers?state=in_flight&count=9".to_owned(), 400, "bad_request"),
            (delete(), "timers?state=dead&count=9".to_owned(), 400, "bad_request"),
            (post(), "dead-letters?count=4".to_owned(), 400, "bad_request"),
            (delete(), "dead-letters?state=finished&count=4".to_owned(), 400, "bad_request"),
        ] {
            let (found, body) = change(&app, request, &path).await;
            assert_eq!((found, &body["error"]), (status, &json!(error)), "{path}");
        }
        let counts = timers.counts().await.unwrap();
        assert!((counts.pending, counts.dead) == (7, 4) && reported().is_none(), "nothing has changed");

        let outcome = json!({ "cancelled": 3, "in_progress": 0, "busy": 0 });
        let (status, body) = change(&app, ada(delete()), &format!("timers?{filter}&count=3")).await;
        assert_eq!((status, &body), (200, &json!({ "durable": "reminders", "outcome": outcome })));
        assert_eq!(reported(), by_ada("cancel", format!("{filter}&count=3 in reminders"), &outcome.to_string()));
        let (_, body) = change(&app, delete(), "timers?route=mail&message_type=work&count=4").await;
        assert_eq!(body["outcome"], json!({ "cancelled": 3, "in_progress": 1, "busy": 0 }));
        assert_eq!(timers.get(hanging).await.unwrap(), None);
        let (status, body) = change(&app, post(), "dead-letters?state=dead&count=4").await;
        assert_eq!((status, &body["outcome"]), (200, &json!({ "requeued": 4 })));
        clock.advance(ms(10)).await;
        let (status, body) = change(&app, delete(), "dead-letters?state=dead&route=mail&count=4").await;
        assert_eq!((status, &body["outcome"]), (200, &json!({ "discarded": 4 })));
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn a_letter_that_cannot_be_requeued_says_why() {
    with_durable(async |timers, clock| {
        let once = |work| Schedule::after("mail", ms(1), work);
        let keyed = |schedule: Schedule<Work>| schedule.options(DurableOptions::new().if_absent("order"));
        let letter = timers.schedule(keyed(once(Work::FailForGood))).await.unwrap().id();
        let series = Schedule::at_fixed_rate("mail", Duration::from_secs(60), Work::FailForGood);
        let series = timers.schedule(series).await.unwrap().id();
        clock.advance(Duration::from_secs(60)).await;
        timers.schedule(keyed(once(Work::Hang))).await.unwrap();
        assert_eq!(timers.counts().await.unwrap().dead, 2);
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true)).await;
        for (id, outcome) in [(letter, "key_in_use"), (series, "still_pending")] {
            let answer = change(&app, TestRequest::post(), &format!("dead-letters/{id}")).await;
            assert_eq!(answer, (409, json!({ "id": id, "outcome": outcome })));
        }
    });
}

#[test]
fn a_count_that_is_limited_confirms_as_many_as_were_counted() {
    with_durable(async |timers, _| {
        for _ in 0..25 {
            let requests = (0..4096).map(|_| Schedule::after("mail", Duration::from_secs(60), Work::Succeed)).collect();
            timers.schedule_all(requests).await.unwrap();
        }
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true)).await;
        assert_has(&get(&app, "durable/count").await, json!({ "count": 100_000, "is_limited": true }));
        let (status, body) = change(&app, TestRequest::delete(), "timers?count=99999").await;
        assert_eq!((status, &body["error"]), (409, &json!("more_than_confirmed")));
        assert!(body["message"].as_str().unwrap().contains("narrow the filter"), "{body}");
        assert!(timers.counts().await.unwrap().is_limited, "nothing has changed");
        let (status, body) = change(&app, TestRequest::delete(), "timers?count=100000").await;
        assert_eq!((status, &body["outcome"]["cancelled"]), (200, &json!(100_000)));
        assert_eq!(timers.counts().await.unwrap().pending, 2400);
    });
}

#[test]
fn no_more_timers_are_changed_than_were_confirmed() {
    with_durable(async |timers, _| {
        let schedule_some = async |number| {
            for _ in 0..number {
                schedule(&timers, Work::Succeed, Duration::from_secs(60)).await;
            }
        };
        schedule_some(3).await;
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true)).await;
        let mut cancel = Box::pin(change(&app, TestRequest::delete(), "timers?count=3"));
        assert!(is_pending(cancel.as_mut()), "it counts");
        // Answered after that count.
        timers.counts().await.unwrap();
        schedule_some(2).await;
        let (status, body) = cancel.await;
        assert_eq!((status, &body["outcome"]["cancelled"]), (200, &json!(3)), "{body}");
        assert_eq!(timers.counts().await.unwrap().pending, 2);
    });
}

#[test]
fn a_route_is_paused_and_resumed() {
    with_durable(async |timers, clock| {
        let (inspector, reported) = reporting(&timers);
        let app = serve(&inspector.allow_cancel(true)).await;
        let path = "pauses?kind=route&name=mail&why=no+mail";
        for (user, who) in [(None, "inspector"), (Some("Ada"), "Ada")] {
            let by =
                |request: TestRequest| user.into_iter().fold(request, |it, user| it.insert_header(("X-User", user)));
            let is_reported = |action, outcome: &str| {
                let change =
                    (user.map(str::to_owned), action, "route mail in reminders".to_owned(), outcome.to_owned());
                assert_eq!(reported(), Some(change));
            };
            assert_eq!(change(&app, by(TestRequest::post()), path).await, (200, json!({ "outcome": "paused" })));
            is_reported("pause", "paused");
            let pause = json!({ "kind": "route", "name": "mail", "until_seconds": null, "who": who, "why": "no mail" });
            assert_eq!(get(&app, "durable").await["durable"][0]["pauses"], json!([pause]));
            let waiting = schedule(&timers, Work::Succeed, ms(1)).await;
            clock.advance(ms(10)).await;
            assert_eq!(get(&app, &format!("durable/timers/{waiting}")).await["state"], "pending");
            assert_eq!(change(&app, by(TestRequest::delete()), path).await, (200, json!({ "outcome": "resumed" })));
            is_reported("resume", "resumed");
            clock.advance(ms(10)).await;
            assert_eq!(timers.get(waiting).await.unwrap(), None);
        }
        assert_eq!(change(&app, TestRequest::delete(), path).await, (200, json!({ "outcome": "not_paused" })));
        assert_eq!(reported().unwrap().3, "not_paused");
        for path in ["pauses?kind=route&name=male", "pauses?kind=timer&name=mail", "pauses?kind=node"] {
            assert_eq!(change(&app, TestRequest::post(), path).await.0, 400, "{path}");
            assert_eq!(reported(), None, "a rejected request is no change");
        }
        let waiting = schedule(&timers, Work::Succeed, ms(1)).await;
        let path = format!("pauses?kind=timer&name={waiting}");
        assert_eq!(change(&app, TestRequest::post(), &path).await, (200, json!({ "outcome": "paused" })));
        let paused = (None, "pause", format!("timer {waiting} in reminders"), "paused".to_owned());
        assert_eq!(reported(), Some(paused));
        clock.advance(ms(10)).await;
        let parked = json!({ "state": "parked", "reason": "paused by inspector" });
        assert_has(&get(&app, &format!("durable/timers/{waiting}")).await, parked);
        assert_eq!(change(&app, TestRequest::delete(), &path).await, (200, json!({ "outcome": "resumed" })));
        clock.advance(ms(10)).await;
        assert_eq!(timers.get(waiting).await.unwrap(), None);
        let (status, body) = change(&app, TestRequest::post(), &path).await;
        assert_eq!((status, &body["error"]), (404, &json!("unknown_timer")));

        let (status, _) = change(&app, TestRequest::post(), "pauses?kind=node&name=reminders").await;
        assert_eq!((status, timers.pauses().await.unwrap().len()), (200, 1));
    });
}

#[test]
fn a_change_whose_client_leaves_is_made_and_reported() {
    support::in_real_time(async {
        let gate = Gate::default();
        let store = behind(&gate, &MemoryDisk::new());
        let timers = DurableTimers::builder(store).open_route::<Work>("mail").start().unwrap();
        schedule(&timers, Work::Succeed, Duration::from_secs(3600)).await;
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        let inspector = Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true);
        let inspector = inspector.audit(move |change| {
            tell.lock().unwrap().take().unwrap().send(change.outcome.clone()).unwrap();
        });
        let app = serve(&inspector).await;
        let held = gate.shut();
        {
            let mut cancel = Box::pin(change(&app, TestRequest::delete(), "timers?count=1"));
            while gate.waiting() == 0 {
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
fn invalid_requests_and_closed_stores_have_a_reason() {
    with_durable(async |timers, _| {
        let app = serve(&Inspector::of_all_arbiters().add_durable(&timers).add_durable(&timers)).await;
        assert_eq!(get(&app, "timer-actors").await["durable"], json!(["reminders", "reminders (2)"]));
        for (path, status, error) in [
            ("durable/timers?state=due", 400, "bad_request"),
            ("durable/timers?limit=0", 400, "bad_request"),
            ("durable/timers?durable=others", 404, "unknown_durable"),
            ("durable/timers?header_value=7", 400, "bad_request"),
            ("durable/timers?due_after=1e19", 400, "bad_request"),
            ("durable/timers?due_within=1e19", 400, "bad_request"),
            ("durable/timers/7", 400, "bad_request"),
            ("durable/letters", 404, "unknown_path"),
        ] {
            let (found, word, message) = rejection(&app, &format!("api/{path}")).await;
            assert_eq!((found, &*word), (status, error), "{path}");
            assert!(error != "unknown_path" || message.contains("`api/durable`"), "{message}");
        }
        timers.stop().await.unwrap();
        let closed = get(&app, "durable").await;
        assert_has(&closed["durable"][1], json!({ "state": "closed", "pending": null }));
        let rejected = rejection(&app, "api/durable/timers").await;
        assert_eq!((rejected.0, &*rejected.1), (503, "store_failed"));
    });
}

#[test]
fn a_hanging_store_delays_neither_the_wheel_nor_another_store() {
    support::in_real_time(async {
        let gate = Gate::default();
        let start = |gate: &Gate, name: &str| {
            let store = behind(gate, &MemoryDisk::new());
            DurableTimers::builder(store).name(name).open_route::<Work>("mail").start().unwrap()
        };
        let (slow, fast) = (start(&gate, "slow"), start(&Gate::default(), "fast"));
        let letter = schedule(&fast, Work::Succeed, Duration::from_secs(3600)).await;
        let own = TimerActor::builder().start().unwrap();
        let inspector = Inspector::new(&own).add_durable(&slow).add_durable(&fast).allow_cancel(true);
        let app = serve(&inspector).await;

        let held = gate.shut();
        let mut writing = Box::pin(schedule(&slow, Work::Succeed, Duration::from_secs(3600)));
        assert!(is_pending(writing.as_mut()));
        while gate.waiting() == 0 {
            std::thread::yield_now();
        }
        let asked = |path: &str| TestRequest::get().uri(&format!("/ops/timers/api/{path}"));
        let paths = ["durable?durable=slow", "durable/timers?durable=slow", "durable/timers?durable=slow&state=dead"];
        let mut waiting: Vec<_> = paths.iter().cycle().take(256).map(|path| Box::pin(app.call(asked(path)))).collect();
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
            assert_eq!(request.await.status(), 200);
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

#[test]
fn a_listener_that_panics_does_not_hide_the_change() {
    with_durable(async |timers, _| {
        let id = schedule(&timers, Work::Succeed, Duration::from_secs(60)).await;
        let inspector = Inspector::of_all_arbiters().add_durable(&timers).allow_cancel(true);
        let app = serve(&inspector.audit(|_| panic!("full"))).await;
        assert_eq!(change(&app, TestRequest::delete(), &format!("timers/{id}")).await.0, 200);
    });
}
