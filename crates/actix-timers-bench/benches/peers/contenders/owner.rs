//! An actor that schedules messages to itself through any [`Keeper`].
//!
//! The work is done in its handlers, some operations per call, so that timer actor and runtime take their turns in
//! between as in a service. Those turns count: work left for after the handler belongs to the cost of an operation.
//! Everything runs on one thread.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use actix::prelude::*;

use crate::clock::Singles;
use crate::rounds::Life;
use bench::random::Random;

/// Operations per call of a handler.
pub(crate) const AT_ONCE: usize = 1_000;

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
    /// The times of single operations, if each is timed alone.
    singles: Option<Singles>,
    keeper: PhantomData<fn() -> K>,
}

impl<K: Keeper> Owner<K> {
    /// Returns an actor with room for this many ids.
    pub(crate) fn with_room_for(size: usize) -> Self {
        let (random, tally) = (Random::new(1), Tally::default());
        Self { ids: Vec::with_capacity(size), random, tally, singles: None, keeper: PhantomData }
    }

    fn repeat(&mut self, count: usize, mut operation: impl FnMut(&mut Self)) {
        match self.singles.take() {
            None => (0..count).for_each(|_| operation(self)),
            Some(mut singles) => {
                (0..count).for_each(|_| singles.time(|| operation(self)));
                self.singles = Some(singles);
            }
        }
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
            Work::Start(count) => self.repeat(count, |owner| {
                let id = owner.schedule(ctx);
                owner.ids.push(id);
            }),
            Work::Churn(count) => self.repeat(count, |owner| {
                let fresh = owner.schedule(ctx);
                let place = owner.random.index(owner.ids.len());
                let old = std::mem::replace(&mut owner.ids[place], fresh);
                owner.cancel(ctx, old);
            }),
            Work::Shuffle => self.random.shuffle(&mut self.ids),
            Work::Stop(count) => {
                let mut ids = self.ids.split_off(self.ids.len() - count).into_iter();
                self.repeat(count, |owner| ids.by_ref().take(1).for_each(|id| owner.cancel(ctx, id)));
            }
        }
    }
}

/// Exchanges the store for the times of single operations.
#[derive(Debug, Message)]
#[rtype(result = "Option<Singles>")]
struct Exchange(Option<Singles>);

impl<K: Keeper> Handler<Exchange> for Owner<K> {
    type Result = Option<Singles>;

    fn handle(&mut self, Exchange(singles): Exchange, _: &mut Context<Self>) -> Option<Singles> {
        std::mem::replace(&mut self.singles, singles)
    }
}

impl<K: Keeper> Handler<Report> for Owner<K> {
    type Result = Tally;

    fn handle(&mut self, _: Report, _: &mut Context<Self>) -> Tally {
        self.tally
    }
}

/// Executes operations, and keeps their time: with the turns between the calls, or that of each operation alone.
async fn keep<K: Keeper>(
    life: &mut Life<'_>,
    workload: &'static str,
    owner: &Addr<Owner<K>>,
    operations: usize,
    kind: fn(usize) -> Work,
) {
    owner.send(Exchange(life.singles(operations))).await.unwrap();
    let took = work(owner, operations, AT_ONCE, kind).await;
    match owner.send(Exchange(None)).await.unwrap() {
        None => life.keep(workload, operations, took),
        Some(singles) => life.keep_singles(workload, operations, singles),
    }
}

/// The operations of `workloads/life.rs`; each message ends once. `when_full` is called while all are pending.
pub(crate) async fn live<K: Keeper>(life: &mut Life<'_>, size: usize, when_full: impl FnOnce()) {
    let owner = Owner::<K>::with_room_for(size).start();
    keep(life, "start", &owner, size, Work::Start).await;
    if life.wants("churn") {
        keep(life, "churn", &owner, size, Work::Churn).await;
    }
    if life.wants("steady-start") {
        let half = size - size / 2;
        owner.send(Work::Shuffle).await.unwrap();
        work(&owner, half, AT_ONCE, Work::Stop).await;
        keep(life, "steady-start", &owner, half, Work::Start).await;
    }
    when_full();
    owner.send(Work::Shuffle).await.unwrap();
    keep(life, "stop", &owner, size, Work::Stop).await;
    let tally = owner.send(Report).await.unwrap();
    assert_eq!(tally.started, tally.cancelled + tally.delivered, "each ends once");
    assert!(tally.delivered <= size / 100, "hardly any was due so soon: {tally:?}");
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
