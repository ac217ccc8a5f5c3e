//! Panics of user code: their texts are kept, and deliveries go on.

use std::sync::Mutex;

use actix::prelude::*;
use actix_timers::ManualClock;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableId, DurableMessage, DurableState, DurableTimers, HandlerError, RouteOptions,
};
use serde::{Deserialize, Serialize};
use support::durable::{at, life, ms, quick, run_to};
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

/// Replies in a future without its actor, on a signal.
struct Unattended(Option<oneshot::Receiver<()>>);

impl Actor for Unattended {
    type Context = Context<Self>;
}

impl Handler<Durable<Mishap>> for Unattended {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, mishap: Durable<Mishap>, _: &mut Context<Self>) -> Self::Result {
        let (mishap, told) = (mishap.message, self.0.take());
        Box::pin(async move {
            told.unwrap().await?;
            panic!("alone with {mishap:?}")
        })
    }
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
        use Mishap::{Formatted, InActorFuture, InFuture, Literal, Long};
        let [literal, formatted, long, in_future, in_actor_future] =
            reasons(&clock, [Literal, Formatted, Long, InFuture, InActorFuture]).await;
        assert_eq!(literal, "the recipient panicked: no paper");
        assert_eq!(formatted, "the recipient panicked: page 7 of 10");
        assert_eq!(long, format!("the recipient panicked: {}", "ä".repeat(400)));
        // An error of the handler, which tokio makes of it.
        assert!(in_future.contains("no ink"), "{in_future}");
        assert_eq!(in_actor_future, "the recipient panicked: no stamp");
    });
}

#[test]
fn without_a_panic_or_its_text_a_dead_letter_repeats_no_earlier_one() {
    life(0, async |clock| {
        use Mishap::{Literal, Stops, WithoutText};
        let [_, without_text, stopped] = reasons(&clock, [Literal, WithoutText, Stops]).await;
        assert_eq!(without_text, "the recipient panicked: no text");
        assert_eq!(stopped, "the recipient panicked or stopped before it had answered");
    });
}

/// The panic hook is not called.
#[test]
fn a_resumed_panic_has_no_text() {
    life(0, async |clock| {
        let [_, resumed] = reasons(&clock, [Mishap::Literal, Mishap::Resumed]).await;
        assert_eq!(resumed, "the recipient panicked or stopped before it had answered");
    });
}

#[test]
fn a_dead_letter_has_the_text_of_a_panic_in_a_future_and_on_another_arbiter() {
    life(0, async |clock| {
        let arbiter = Arbiter::new();
        let [(tell_here, here), (tell_there, there)] = [oneshot::channel(), oneshot::channel()];
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .clock(clock.clone())
            .route_with::<Mishap>("here", Unattended(Some(here)).start(), once())
            .route_with::<Mishap>(
                "there",
                Unattended::start_in_arbiter(&arbiter.handle(), |_| Unattended(Some(there))),
                once(),
            )
            .start()
            .unwrap();
        let on_here = timers.schedule_after("here", ms(1), Mishap::Formatted).await.unwrap().id();
        let on_there = timers.schedule_after("there", ms(1), Mishap::Literal).await.unwrap().id();
        run_to(&clock, 100).await;
        [tell_here, tell_there].map(|tell| tell.send(()).unwrap());
        while timers.counts().await.unwrap().dead < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reason(&timers, on_here).await, "the recipient panicked: alone with Formatted");
        assert_eq!(reason(&timers, on_there).await, "the recipient panicked: alone with Literal");
    });
}

#[test]
fn messages_that_are_lost_with_their_actor_have_the_text_of_its_panic() {
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
