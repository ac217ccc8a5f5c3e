//! An actor that schedules messages to itself, whoever keeps them for it.
//!
//! The work is done in its handlers, some operations in each call, so that timer actor and runtime have their turns in
//! between as they have in a service. Those turns count: what an operation leaves to be done after the handler belongs to
//! its cost. Everything happens on one thread.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use actix::prelude::*;

use bench::random::Random;

/// The message that is delayed: 32 bytes.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Note(pub(crate) [u64; 4]);

/// Keeps delayed messages for an actor.
pub(crate) trait Keeper: Sized + 'static {
    /// Names one of them.
    type Id: Unpin + 'static;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> Self::Id;

    /// False if the message has been delivered already.
    fn cancel(ctx: &mut Context<Owner<Self>>, id: Self::Id) -> bool;
}

/// What to do in one call.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub(crate) enum Work {
    /// Schedule so many.
    Start(usize),
    /// So many times schedule one and cancel a random one.
    Churn(usize),
    /// Mix what is pending, so that the next stops meet it in a random order.
    Shuffle,
    /// Cancel so many.
    Stop(usize),
}

/// What has become of all that was scheduled.
#[derive(Debug, Default, Clone, Copy, MessageResponse)]
pub(crate) struct Tally {
    pub(crate) started: usize,
    pub(crate) cancelled: usize,
    pub(crate) delivered: usize,
}

#[derive(Debug, Message)]
#[rtype(result = "Tally")]
pub(crate) struct Report;

pub(crate) struct Owner<K: Keeper> {
    ids: Vec<K::Id>,
    random: Random,
    tally: Tally,
    keeper: PhantomData<fn() -> K>,
}

impl<K: Keeper> Owner<K> {
    /// An actor with room for so many ids.
    pub(crate) fn with_room_for(size: usize) -> Self {
        Self { ids: Vec::with_capacity(size), random: Random::new(1), tally: Tally::default(), keeper: PhantomData }
    }

    fn schedule(&mut self, ctx: &mut Context<Self>) -> K::Id {
        let note = Note([self.tally.started as u64; 4]);
        self.tally.started += 1;
        K::schedule(ctx, self.random.delay(), note)
    }

    fn cancel(&mut self, ctx: &mut Context<Self>, id: K::Id) {
        self.tally.cancelled += usize::from(K::cancel(ctx, id));
    }
}

impl<K: Keeper> Actor for Owner<K> {
    type Context = Context<Self>;
}

impl<K: Keeper> Handler<Note> for Owner<K> {
    type Result = ();

    fn handle(&mut self, _: Note, _: &mut Context<Self>) {
        self.tally.delivered += 1;
    }
}

impl<K: Keeper> Handler<Work> for Owner<K> {
    type Result = ();

    fn handle(&mut self, work: Work, ctx: &mut Context<Self>) {
        match work {
            Work::Start(count) => {
                for _ in 0..count {
                    let id = self.schedule(ctx);
                    self.ids.push(id);
                }
            }
            Work::Churn(count) => {
                for _ in 0..count {
                    let fresh = self.schedule(ctx);
                    let place = self.random.index(self.ids.len());
                    let old = std::mem::replace(&mut self.ids[place], fresh);
                    self.cancel(ctx, old);
                }
            }
            Work::Shuffle => self.random.shuffle(&mut self.ids),
            Work::Stop(count) => {
                for id in self.ids.split_off(self.ids.len() - count) {
                    self.cancel(ctx, id);
                }
            }
        }
    }
}

impl<K: Keeper> Handler<Report> for Owner<K> {
    type Result = Tally;

    fn handle(&mut self, _: Report, _: &mut Context<Self>) -> Tally {
        self.tally
    }
}

/// Lets an actor do `operations`, `at_once` in one call of its handler, and returns how long that took in all.
pub(crate) async fn work<K: Keeper>(
    owner: &Addr<Owner<K>>,
    operations: usize,
    at_once: usize,
    work: fn(usize) -> Work,
) -> Duration {
    let began = Instant::now();
    let mut left = operations;
    while left > 0 {
        let now = left.min(at_once);
        owner.send(work(now)).await.unwrap();
        left -= now;
    }
    // Tasks have their turns in the order in which they were woken: those that were spawned come before this one.
    actix::spawn(async {}).await.unwrap();
    began.elapsed()
}
