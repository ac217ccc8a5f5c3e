//! Panics of user code: their texts are kept, and deliveries go on.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::ManualClock;
use actix_timers_durable::store::{MemoryDisk, Op};
use actix_timers_durable::{
    DecodeError, Durable, DurableError, DurableId, DurableMessage, DurableState, DurableTimers, EncodeError,
    HandlerError, PayloadCodec, RouteOptions, Schedule,
};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use serde::{Deserialize, Serialize};
#[cfg(feature = "tracing")]
use support::durable::Act;
use support::durable::{Diary, Note, ROUTE, Watched, at, handled_by, life, ms, quick, run_to};
use support::in_own_process;
use tokio::sync::oneshot;

/// A message whose handler panics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Mishap {
    Literal,
    Formatted,
    Long,
    InFuture,
    InActorFuture,
    WithoutText,
    Resumed,
    Stops,
}

impl DurableMessage for Mishap {
    const NAME: &'static str = "mishap";
}

struct Unlucky;

impl Actor for Unlucky {
    type Context = Context<Self>;
}

impl Handler<Durable<Mishap>> for Unlucky {
    type Result = ResponseActFuture<Self, Result<(), HandlerError>>;

    fn handle(&mut self, mishap: Durable<Mishap>, ctx: &mut Context<Self>) -> Self::Result {
        match mishap.message {
            Mishap::Literal => panic!("no paper"),
            Mishap::Formatted => panic!("page {} of {}", 7, 10),
            Mishap::Long => panic!("{}", "ä".repeat(100_000)),
            Mishap::InFuture => {
                let spawned = actix::spawn(async { panic!("no ink") });
                Box::pin(async { Ok(spawned.await?) }.into_actor(self))
            }
            Mishap::InActorFuture => Box::pin(async {}.into_actor(self).map(|(), _, _| panic!("no stamp"))),
            Mishap::WithoutText => std::panic::panic_any(7),
            Mishap::Resumed => std::panic::resume_unwind(Box::new("it was not reported")),
            Mishap::Stops => {
                ctx.stop();
                Box::pin(std::future::pending::<Result<(), HandlerError>>().into_actor(self))
            }
        }
    }
}

/// Starts an actor that panics in a future without its actor, on a signal.
fn unattended(signal: oneshot::Receiver<()>) -> Recipient<Durable<Mishap>> {
    let signal = Cell::new(Some(signal));
    handled_by(async move |mishap: Durable<Mishap>| {
        signal.take().unwrap().await?;
        panic!("alone with {:?}", mishap.message)
    })
}

fn once() -> RouteOptions {
    RouteOptions::new().retry(quick().max_attempts(1))
}

async fn reason(timers: &DurableTimers, id: DurableId) -> String {
    match timers.get(id).await.unwrap().unwrap().state {
        DurableState::Dead { reason, .. } => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns the reasons of the dead letters of these messages, each of which ends its actor.
async fn reasons<const N: usize>(clock: &ManualClock, mishaps: [Mishap; N]) -> [String; N] {
    let builder = DurableTimers::builder(MemoryDisk::new().open()).clock(clock.clone());
    let timers = builder.open_route_with::<Mishap>("office", once()).start().unwrap();
    let mut reasons = Vec::new();
    for mishap in mishaps {
        timers.connect::<Mishap>("office", Unlucky.start()).unwrap();
        let id = timers.schedule_after("office", ms(1), mishap).await.unwrap().id();
        clock.advance(ms(10)).await;
        reasons.push(reason(&timers, id).await);
    }
    reasons.try_into().unwrap()
}

#[test]
fn a_dead_letter_has_the_text_of_its_handlers_panic() {
    life(0, async |clock| {
        use Mishap::{Formatted, InActorFuture, InFuture, Literal, Long, Resumed, Stops, WithoutText};
        let [literal, formatted, long, in_future, in_actor_future, without_text, stopped, _, resumed] =
            reasons(&clock, [Literal, Formatted, Long, InFuture, InActorFuture, WithoutText, Stops, Literal, Resumed])
                .await;
        assert_eq!(literal, "the recipient panicked: no paper");
        assert_eq!(formatted, "the recipient panicked: page 7 of 10");
        assert_eq!(long, format!("the recipient panicked: {}", "ä".repeat(400)));
        // An error of the handler, which tokio makes of it.
        assert!(in_future.contains("no ink"), "{in_future}");
        assert_eq!(in_actor_future, "the recipient panicked: no stamp");
        assert_eq!(without_text, "the recipient panicked: no text", "no earlier text is repeated");
        // No panic hook is called for a resumed panic.
        for without_panic in [stopped, resumed] {
            assert_eq!(without_panic, "the recipient panicked or stopped before it had answered");
        }
    });
}

#[test]
fn a_dead_letter_has_the_text_of_a_panic_elsewhere() {
    life(0, async |clock| {
        let arbiter = Arbiter::new();
        let [(tell_here, here), (tell_there, there)] = [oneshot::channel(), oneshot::channel()];
        let (sender, receiver) = oneshot::channel();
        arbiter.spawn(async move { _ = sender.send(unattended(there)) });
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .clock(clock.clone())
            .route_with::<Mishap>("here", unattended(here), once())
            .route_with::<Mishap>("there", receiver.await.unwrap(), once())
            .start()
            .unwrap();
        let on_here = timers.schedule_after("here", ms(1), Mishap::Formatted).await.unwrap().id();
        let on_there = timers.schedule_after("there", ms(1), Mishap::Literal).await.unwrap().id();
        run_to(&clock, 100).await;
        tell_here.send(()).unwrap();
        tell_there.send(()).unwrap();
        while timers.counts().await.unwrap().dead < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reason(&timers, on_here).await, "the recipient panicked: alone with Formatted");
        assert_eq!(reason(&timers, on_there).await, "the recipient panicked: alone with Literal");
    });
}

#[test]
fn messages_lost_with_their_actor_have_the_text_of_its_panic() {
    life(0, async |clock| {
        let builder = DurableTimers::builder(MemoryDisk::new().open()).clock(clock.clone());
        let timers = builder.route_with::<Mishap>("office", Unlucky.start(), once()).start().unwrap();
        let first = timers.schedule_at("office", at(10), Mishap::Formatted).await.unwrap().id();
        let second = timers.schedule_at("office", at(10), Mishap::Literal).await.unwrap().id();
        run_to(&clock, 100).await;
        for id in [first, second] {
            assert_eq!(reason(&timers, id).await, "the recipient panicked: page 7 of 10");
        }
    });
}

#[test]
fn the_panic_hook_of_the_program_is_called_as_before() {
    in_own_process!(the_panic_hook_of_the_program_is_called_as_before, || {
        static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        std::panic::set_hook(Box::new(|panic| SEEN.lock().unwrap().push(panic.to_string())));
        life(0, async |clock| {
            for _ in 0..3 {
                reasons(&clock, [Mishap::Literal]).await;
            }
        });
        let seen = SEEN.lock().unwrap();
        assert_eq!(seen.iter().filter(|text| text.contains("no paper")).count(), 3, "{seen:?}");
    });
}

/// The payload of a panic whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a panic");
    }
}

/// A message that cannot be encoded, nor dropped if it was decoded.
#[derive(Serialize, Deserialize)]
struct Fragile {
    encodes: bool,
    #[serde(skip)]
    is_decoded: bool,
}

/// The arbiter of the recipient, which ends while the message is decoded.
static GOES: Mutex<Option<(Arbiter, Recipient<Durable<Fragile>>)>> = Mutex::new(None);

impl DurableMessage for Fragile {
    const NAME: &'static str = "fragile";

    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        if !self.encodes {
            std::panic::panic_any(Bomb);
        }
        serde_json::to_vec(self).map_err(EncodeError::new)
    }

    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if let Some((arbiter, recipient)) = GOES.lock().unwrap().take() {
            arbiter.stop();
            while recipient.connected() {
                std::thread::yield_now();
            }
        }
        Ok(Self { is_decoded: true, ..Self::decode_json(version, payload)? })
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if self.is_decoded {
            std::panic::panic_any(Bomb);
        }
    }
}

impl Handler<Durable<Fragile>> for Unlucky {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, _: Durable<Fragile>, _: &mut Context<Self>) -> Self::Result {
        unreachable!("it has stopped")
    }
}

/// Asserts that the durable timers still deliver.
async fn assert_delivers(timers: &DurableTimers, diary: &Diary, clock: &ManualClock) {
    let before = diary.len();
    let request = Schedule::after(ROUTE, ms(1), Note(1));
    let _ = timers.addr().send(request).await.expect("their actor lives").unwrap();
    clock.advance(ms(10)).await;
    assert_eq!(diary.len(), before + 1);
}

#[test]
fn an_encoder_that_panics_in_a_request_ends_no_deliveries() {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&MemoryDisk::new(), &clock).open_route::<Fragile>("shelf").start().unwrap();
        let request = || Schedule::after("shelf", ms(1), Fragile { encodes: false, is_decoded: false });
        for error in [timers.addr().send(request()).await.expect("their actor lives"), timers.schedule(request()).await]
        {
            let error = error.unwrap_err();
            assert!(matches!(&error.reason, DurableError::Encode { message_type: "fragile", .. }), "{error}");
            assert!(error.to_string().ends_with("the encoder panicked: no text"), "{error}");
            assert!(!error.message.encodes, "it comes back");
        }
        assert_delivers(&timers, &diary, &clock).await;
    });
}

/// A codec that panics in one of its functions; over the note 3 alone if that is `decode`.
struct Broken {
    in_function: &'static str,
}

impl PayloadCodec for Broken {
    fn id(&self) -> &str {
        assert_ne!(self.in_function, "id", "no key");
        "broken"
    }

    fn encode(&self, payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
        assert_ne!(self.in_function, "encode", "no key");
        Ok(payload)
    }

    fn decode(&self, _: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
        assert_ne!(payload, b"3", "no key");
        Ok(payload.to_vec())
    }
}

#[test]
fn a_codec_that_panics_in_a_request_ends_no_requests() {
    for in_function in ["encode", "id"] {
        life(0, async |clock| {
            let builder = Diary::default().builder(&MemoryDisk::new(), &clock).payload_codec(Broken { in_function });
            let timers = builder.start().unwrap();
            for _ in 0..2 {
                let request = Schedule::after(ROUTE, ms(1), Note(1));
                let error = timers.addr().send(request).await.expect("their actor lives").unwrap_err().to_string();
                assert!(error.contains("the encoder panicked: ") && error.contains("no key"), "{error}");
            }
        });
    }
}

#[test]
fn a_destructor_that_panics_after_the_stop_ends_no_deliveries() {
    let diary = Diary::default();
    life(0, async |clock| {
        let arbiter = Arbiter::new();
        let recipient = Unlucky::start_in_arbiter(&arbiter.handle(), |_| Unlucky).recipient();
        let builder = diary.builder(&MemoryDisk::new(), &clock);
        let timers = builder.route::<Fragile>("shelf", recipient.clone()).start().unwrap();
        *GOES.lock().unwrap() = Some((arbiter, recipient));
        let fragile = Fragile { encodes: true, is_decoded: false };
        let id = timers.schedule_after("shelf", ms(1), fragile).await.unwrap().id();
        clock.advance(ms(10)).await;
        assert_delivers(&timers, &diary, &clock).await;
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((info.state, info.progress.attempt), (DurableState::Pending, 2));
    });
}

#[cfg(feature = "tracing")]
#[test]
fn a_subscriber_that_panics_ends_no_deliveries() {
    let story = crate::spans::Story { panics: Some(|| std::panic::panic_any(Bomb)), ..Default::default() };
    let _subscribed = tracing::subscriber::set_default(story.clone());
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = diary
            .builder(&MemoryDisk::new(), &clock)
            .open_route::<Mishap>("nobody")
            .payload_codec(Broken { in_function: "decode" });
        let timers = builder.start().unwrap();
        let nobody = timers.schedule_after("nobody", ms(1), Mishap::Literal).await.unwrap().id();
        diary.script(2, [Act::FailForGood]);
        let [dead, unreadable]: [_; 2] =
            support::durable::notes(&timers, ROUTE, [(2, 1), (3, 1)]).await.try_into().unwrap();
        clock.advance(ms(10)).await;
        let state = async |id| timers.get(id).await.unwrap().unwrap().state;
        assert_eq!(state(nobody).await, DurableState::Pending);
        assert!(matches!(state(dead).await, DurableState::Dead { .. }));
        assert!(matches!(state(unreadable).await, DurableState::Parked { .. }));
        assert_delivers(&timers, &diary, &clock).await;
    });
    let events = &story.noted().events;
    for text in ["a route has no recipient", "durable dead letter", "the decoder panicked: "] {
        assert!(events.iter().any(|(event, _)| event.contains(text)), "{text}: {events:?}");
    }
}

/// A recorder whose metrics of durable timers panic.
struct Sealed;

/// A metric that panics.
struct Meter;

fn meter(key: &Key) -> Option<Arc<Meter>> {
    let is_ours = key.name().starts_with("actix_timers_durable") || key.name().starts_with("actix_timers_store");
    is_ours.then(|| Arc::new(Meter))
}

impl Recorder for Sealed {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        meter(key).map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        meter(key).map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        meter(key).map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

impl CounterFn for Meter {
    fn increment(&self, _: u64) {
        std::panic::panic_any(Bomb);
    }

    fn absolute(&self, _: u64) {
        std::panic::panic_any(Bomb);
    }
}

impl GaugeFn for Meter {
    fn increment(&self, _: f64) {
        std::panic::panic_any(Bomb);
    }

    fn decrement(&self, _: f64) {
        std::panic::panic_any(Bomb);
    }

    fn set(&self, _: f64) {
        std::panic::panic_any(Bomb);
    }
}

impl HistogramFn for Meter {
    fn record(&self, _: f64) {
        std::panic::panic_any(Bomb);
    }
}

#[test]
fn a_recorder_that_panics_ends_no_deliveries() {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = diary.builder(&MemoryDisk::new(), &clock);
        let timers = metrics::with_local_recorder(&Sealed, || builder.start()).unwrap();
        for _ in 0..3 {
            assert_delivers(&timers, &diary, &clock).await;
        }
    });
}

#[test]
fn a_recorder_that_panics_ends_no_thread() {
    support::in_real_time(async {
        let diary = Diary::default();
        let recipient = diary.writer(&ManualClock::starting_at(at(0)));
        let builder = DurableTimers::builder(MemoryDisk::new().open()).route::<Note>(ROUTE, recipient);
        let timers = metrics::with_local_recorder(&Sealed, || builder.start()).unwrap();
        for round in 0..3 {
            let _ = timers.schedule_after(ROUTE, ms(1), Note(1)).await.unwrap();
            while diary.len() == round {
                actix::clock::sleep(ms(1)).await;
            }
        }
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_store_that_panics_closes_the_timers_and_stop_returns() {
    support::in_real_time(async {
        let diary = Diary::default();
        let recipient = diary.writer(&ManualClock::starting_at(at(0)));
        let broken = |ops: &[Op]| {
            assert!(!ops.iter().any(|op| matches!(op, Op::Claim(_))), "the store is broken");
        };
        let builder = DurableTimers::builder(Watched(MemoryDisk::new().open(), broken)).route::<Note>(ROUTE, recipient);
        let timers = builder.start().unwrap();
        let _ = timers.schedule_after(ROUTE, ms(1), Note(1)).await.unwrap();
        while timers.counts().await.is_ok() {
            actix::clock::sleep(ms(1)).await;
        }
        timers.stop_within(ms(1)).await.ok();
        let error = timers.schedule_after(ROUTE, ms(1), Note(1)).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::Closed), "{error}");
    });
}
