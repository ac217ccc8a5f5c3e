//! `do_send` to a counting actor on another arbiter: the cost of a message without any work.

use std::time::{Duration, Instant};

use actix::prelude::*;

use crate::contenders::messages::{CANCEL_BYTES, SCHEDULE_BYTES};
use crate::contenders::owner::Note;
use crate::rounds::Life;

/// A message of this many bytes.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Load<const BYTES: usize>([u8; BYTES]);

#[derive(Debug, Message)]
#[rtype(result = "usize")]
struct Count;

/// An actor that counts its messages.
#[derive(Debug, Default)]
pub(crate) struct Counter(usize);

impl Actor for Counter {
    type Context = Context<Self>;
}

impl<const BYTES: usize> Handler<Load<BYTES>> for Counter {
    type Result = ();

    fn handle(&mut self, load: Load<BYTES>, _: &mut Context<Self>) {
        self.0 += std::hint::black_box(load.0).len() / BYTES;
    }
}

impl Handler<Note> for Counter {
    type Result = ();

    fn handle(&mut self, note: Note, _: &mut Context<Self>) {
        std::hint::black_box(note.0);
        self.0 += 1;
    }
}

impl Handler<Count> for Counter {
    type Result = usize;

    fn handle(&mut self, _: Count, _: &mut Context<Self>) -> usize {
        self.0
    }
}

/// Sends one message per timer, as large as a schedule request, and then as large as a cancel request.
pub(crate) fn live(life: &mut Life, size: usize) {
    System::new().block_on(async {
        life.keep("start", size, flood::<SCHEDULE_BYTES>(size).await);
        life.keep("stop", size, flood::<CANCEL_BYTES>(size).await);
    });
}

/// Returns the time from the first message sent to the last one handled.
async fn flood<const BYTES: usize>(messages: usize) -> Duration {
    let arbiter = Arbiter::new();
    let counter = Counter::start_in_arbiter(&arbiter.handle(), |_| Counter::default());
    assert_eq!(counter.send(Count).await, Ok(0));
    let began = Instant::now();
    for n in 0..messages {
        counter.do_send(Load([n as u8; BYTES]));
    }
    let handled = counter.send(Count).await;
    let took = began.elapsed();
    assert_eq!(handled, Ok(messages));
    arbiter.stop();
    arbiter.join().unwrap();
    took
}
