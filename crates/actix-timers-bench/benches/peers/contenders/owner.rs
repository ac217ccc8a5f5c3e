//! An actor that schedules messages to itself through any [`Keeper`].
//!
//! The work is done in its handlers, some operations per call, so that timer actor and runtime take their turns in
//! between as in a service. Those turns count: work left for after the handler belongs to the cost of an operation.
//! Everything runs on one thread.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use actix::prelude::*;

use bench::random::Random;

/// The delayed message: 32 bytes.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Note(pub(crate) [u64; 4]);

/// A store of delayed messages for an actor.
pub(crate) trait Keeper: Sized + 'static {
    /// The id of a delayed message.
    type Id: Unpin + 'static;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> Self::Id;

    /// Cancels a message. Returns false if it was delivered already.
    fn cancel(ctx: &mut Context<Owner<Self>>, id: Self::Id) -> bool;
}

/// The work of one call.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub(crate) enum Work {
    /// Schedules this many.
    Start(usize),
    /// Schedules one and cancels a random one, this many times.
    Churn(usize),
    /// Shuffles the pending ids, so that the next stops have a random order.
    Shuffle,
    /// Cancels this many.
    Stop(usize),
}

/// The outcomes of the scheduled messages.
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
    /// Returns an actor with room for this many ids.
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

/// Executes `operations`, `at_once` per call of the handler, and returns the total time.
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
    // Tasks run in the order in which they were woken: earlier ones before this one.
    actix::spawn(async {}).await.unwrap();
    began.elapsed()
}
