//! The committer's thread.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::Builder;

use actix_timers::integration::PUBLISH_EVERY;

use super::CommitterClock;
use super::gauges::Gauges;
use super::patience::Patience;
use super::queue::{End, Queues, Taken};
use crate::ledger::{Horizon, Ledgers, Replies};
use crate::sync::spawn;

pub(super) fn start<H: Horizon>(
    ledgers: Ledgers<H>,
    queues: Queues,
    clock: CommitterClock,
    gauges: Arc<Gauges>,
    name: &str,
) -> io::Result<()> {
    let timer = name.to_owned();
    let run = move || {
        let _end = End(queues.all().collect());
        run(ledgers, &queues, &clock, &gauges, &timer);
    };
    spawn(format!("{name} committer"), run).map(drop)
}

/// Runs until the ledgers are closed, their only shard is lost, or the last handle is dropped.
fn run<H: Horizon>(mut ledgers: Ledgers<H>, queues: &Queues, clock: &CommitterClock, gauges: &Gauges, name: &str) {
    let shared = &queues.requests;
    let mut requests = VecDeque::new();
    let mut replies = Replies::default();
    let mut patience = Patience::default();
    let (mut has_more, mut is_published) = (true, false);
    loop {
        if requests.is_empty() {
            match shared.take(&mut requests, has_more, (!is_published).then_some(PUBLISH_EVERY)) {
                Taken::Requests => {
                    if let Some((wanted, limit)) = patience.wanted().filter(|_| !has_more) {
                        patience.have_come(shared.take_more(&mut requests, wanted, limit));
                    }
                }
                Taken::Nothing => {
                    let now = clock();
                    is_published = gauges.report(ledgers.report(now), shared.lag(now.time));
                    continue;
                }
                Taken::Left => return,
            }
        }
        let begun = clock().time;
        shared.begin(begun);
        let permits = ledgers.commit(&**clock, &mut requests, &mut replies);
        patience.committed(permits, clock().time.saturating_sub(begun));
        shared.done(permits);
        gauges.wrote(&mut replies);
        // Before the reply to the close: all requests after it fail.
        if let Some(why) = ledgers.end_reason() {
            queues.close(why);
        }
        replies.send(aside);
        let now = clock();
        has_more = ledgers.maintain(now);
        ledgers.take_notes().iter().for_each(|note| note.say(name));
        is_published = gauges.is_due(now.time) && gauges.report(ledgers.report(now), shared.lag(now.time));
        if let Some(why) = ledgers.end_reason() {
            return requests.into_iter().for_each(|request| request.reject(why));
        }
    }
}

/// Runs slow work on another thread, or here if none can be started.
fn aside(work: Box<dyn FnOnce() + Send>) {
    let (hand_over, handed_over) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let elsewhere = move || {
        if let Ok(work) = handed_over.recv() {
            work();
        }
    };
    match Builder::new().name("backup".to_owned()).spawn(elsewhere) {
        Ok(_) => _ = hand_over.send(work),
        Err(_) => work(),
    }
}
