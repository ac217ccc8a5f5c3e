//! Somebody who hears of dead letters.

use std::sync::mpsc;

use actix::prelude::*;
use actix_timers::{DeadLetter, DeadLetterReason, Timers};

use super::Note;

/// Hands on what it hears of.
pub struct Listener(pub mpsc::Sender<DeadLetter>);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Listener {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, _: &mut Self::Context) {
        let _ = self.0.send(letter);
    }
}

/// Hears of the dead letters of a timer actor for as long as the address is kept.
pub fn listen(timers: &Timers) -> (Addr<Listener>, mpsc::Receiver<DeadLetter>) {
    let (sender, letters) = mpsc::channel();
    let addr = Listener(sender).start();
    timers.subscribe_dead_letters(addr.clone());
    (addr, letters)
}

/// The names of the notes that were lost since the last call, and why each was.
pub fn letters(receiver: &mpsc::Receiver<DeadLetter>) -> Vec<(u32, DeadLetterReason)> {
    receiver.try_iter().map(|letter| (letter.take::<Note<u32>>().unwrap().0, letter.reason)).collect()
}
