//! The thread of the store.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc;
use std::thread::Builder;

use super::Environment;
use super::patience::Patience;
use super::queue::{AtEnd, Queues};
use super::request::{Reply, Report, Request};
use super::writer::{Replies, Writer};
use crate::sync::spawn;

pub(super) fn start(writer: Writer, queues: Queues, environment: Environment, name: &str) -> io::Result<()> {
    let run = move || {
        let _reported = AtEnd(|| (environment.listener)(Report { is_closed: true, ..Report::default() }));
        let _closed = AtEnd(|| queues.close());
        run(writer, &queues, &environment);
    };
    spawn(format!("{name} committer"), run).map(drop)
}

/// Runs until the store is closed, or the last handle is dropped.
fn run(mut writer: Writer, queues: &Queues, environment: &Environment) {
    let Environment { clock, .. } = environment;
    let shared = &queues.requests;
    let mut requests = VecDeque::new();
    let mut patience = Patience::default();
    loop {
        if requests.is_empty() {
            if !shared.take(&mut requests, writer.pause(clock().time)) {
                return;
            }
            if !requests.is_empty()
                && let Some((wanted, limit)) = patience.wanted()
            {
                patience.have_come(shared.take_more(&mut requests, wanted, limit));
            }
        }
        if shared.takes_beat() {
            requests.push_front(Request::Beat);
        }
        let begun = clock().time;
        shared.begin(begun);
        let mut replies = Replies::default();
        let places = writer.turn(&**clock, &mut requests, &mut replies);
        let now = clock();
        patience.committed(replies.callers(), now.time.saturating_sub(begun));
        shared.done(places);
        if writer.is_closed() {
            // Before the reply to the close: all requests after it fail.
            queues.close();
            requests.clear();
        }
        environment.send(replies);
        if writer.is_closed() {
            return;
        }
        // The actor publishes the values every second.
        _ = writer.refresh(now);
    }
}

/// Runs slow work on another thread, or here if none can be started.
pub(super) fn aside(work: Reply) {
    let (hand_over, handed_over) = mpsc::channel::<Reply>();
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
