//! A listener to dead letters.

use std::sync::mpsc;

use actix::prelude::*;
use actix_timers::{DeadLetter, DeadLetterReason, Timers};

use super::Note;

/// An actor that forwards dead letters to a channel.
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

/// Subscribes to the dead letters of a timer actor for as long as the address is kept.
pub fn listen(timers: &Timers) -> (Addr<Listener>, mpsc::Receiver<DeadLetter>) {
    let (sender, letters) = mpsc::channel();
    let addr = Listener(sender).start();
    timers.subscribe_dead_letters(addr.clone());
    (addr, letters)
}

/// Returns the names of the notes that were lost since the last call, each with the reason.
pub fn letters(receiver: &mpsc::Receiver<DeadLetter>) -> Vec<(u32, DeadLetterReason)> {
    receiver.try_iter().map(|letter| (letter.take::<Note<u32>>().unwrap().0, letter.reason)).collect()
}
