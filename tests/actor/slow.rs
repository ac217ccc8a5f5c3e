//! An actor whose handlers answer with futures that the test ends.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use actix::prelude::*;
use actix_timers::impl_due_timers;
use support::{Log, Note, StopWatch, World};
use tokio::sync::oneshot;

/// The ends of the futures that have not ended yet.
pub(crate) type Gates = Rc<RefCell<VecDeque<oneshot::Sender<()>>>>;

pub(crate) struct Slow {
    log: Log<u32>,
    watch: StopWatch,
    gates: Gates,
}

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Note<u32>> for Slow {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Note(n): Note<u32>, _: &mut Self::Context) -> Self::Result {
        self.log.push(n, self.watch.now());
        let (go, gate) = oneshot::channel();
        self.gates.borrow_mut().push_back(go);
        Box::pin(async { drop(gate.await) }.into_actor(self))
    }
}

impl_due_timers!(Slow);

pub(crate) fn slow(world: &World) -> (Addr<Slow>, Log<u32>, Gates) {
    let (log, gates) = (Log::default(), Gates::default());
    let actor = Slow { log: log.clone(), watch: world.watch.clone(), gates: Rc::clone(&gates) };
    (actor.start(), log, gates)
}

/// Ends one of the futures.
pub(crate) fn open(gates: &Gates, number: usize) {
    gates.borrow_mut().remove(number).unwrap().send(()).unwrap();
}
