//! Purgatories used by actors, and from other threads than their own.

use actix::prelude::*;
use actix_timers_purgatory::{Outcome, Purgatory};

use crate::{Answer, Level, SECOND, World, answer};

/// An actor whose replies wait for a level.
struct Gate {
    purgatory: Purgatory<u32>,
    level: Level,
}

impl Actor for Gate {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "Option<u32>")]
struct Reach(u32);

impl Handler<Reach> for Gate {
    type Result = ResponseFuture<Option<u32>>;

    fn handle(&mut self, Reach(level): Reach, _: &mut Self::Context) -> Self::Result {
        let wait = self.purgatory.wait([1], SECOND, self.level.reached(level));
        Box::pin(async move { wait.await.ok().and_then(Outcome::completed) })
    }
}

#[derive(Message)]
#[rtype(result = "usize")]
struct Raise;

impl Handler<Raise> for Gate {
    type Result = usize;

    fn handle(&mut self, _: Raise, _: &mut Self::Context) -> usize {
        self.level.set(self.level.get() + 1);
        self.purgatory.check(&1)
    }
}

#[actix::test]
async fn an_actor_answers_later() {
    let world = World::new();
    let gate = Gate { purgatory: world.purgatory.clone(), level: Level::default() }.start();
    let [first, second, third] = [1, 2, 3].map(|level| actix::spawn(gate.send(Reach(level))));
    world.clock.settle().await;
    assert_eq!(gate.send(Raise).await.unwrap(), 1);
    assert_eq!(first.await.unwrap().unwrap(), Some(1));
    assert_eq!(gate.send(Raise).await.unwrap(), 1);
    assert_eq!(second.await.unwrap().unwrap(), Some(2));
    world.clock.advance(SECOND).await;
    assert_eq!(third.await.unwrap().unwrap(), None);
    world.assert_empty();
}

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

impl Handler<Stop> for Gate {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

#[actix::test]
async fn the_stop_of_an_actor_ends_its_requests() {
    let world = World::new();
    let gate = Gate::create(|ctx| {
        let gate = Gate { purgatory: world.purgatory.clone(), level: Level::default() };
        let wait = gate.purgatory.wait([1], SECOND, gate.level.reached(1));
        ctx.spawn(wait.into_actor(&gate).map(|_, _, _| ()));
        gate
    });
    world.clock.settle().await;
    assert_eq!(world.purgatory.delayed(), 1);
    gate.send(Stop).await.unwrap();
    world.clock.settle().await;
    world.assert_empty();
}

#[actix::test]
async fn any_thread_may_wait_and_check() {
    let world = World::new();
    let level = Level::default();
    let (purgatory, there) = (world.purgatory.clone(), level.clone());
    let mut wait = std::thread::spawn(move || purgatory.wait([1], SECOND, there.reached(1))).join().unwrap();
    let (purgatory, there) = (world.purgatory.clone(), level.clone());
    let completed = std::thread::spawn(move || {
        there.set(1);
        purgatory.check(&1)
    });
    assert_eq!(completed.join().unwrap(), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)));
    world.assert_empty();
}
