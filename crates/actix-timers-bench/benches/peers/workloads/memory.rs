//! Bytes per pending timer, with the handle that its owner keeps to cancel it, and the bytes left after the cancel of
//! all.
//!
//! Two measures: allocated and resident bytes. Delays are longer than elsewhere, 10 to 70 minutes, so that no timer is
//! due while ten million are scheduled and cancelled.

use std::time::{Duration, Instant};

use actix::System;

use crate::arguments::Arguments;
use crate::child::{self, Figures, Request, Task};
use crate::heap;
use crate::senders::Sender;
use crate::senders::delay_queue::Queue;
use crate::senders::messages::{Due, Planner};
use crate::senders::notify_later::NotifyLater;
use crate::senders::ours::OwnContext;
use crate::senders::tokio_sleep::Sleeps;
use bench::process;
use bench::random::Random;
use bench::rows::Rows;

const SUBJECTS: [&str; 4] = ["actix-timers, context", "delay-queue, do_send", "tokio-sleep", "notify-later"];
const UNITS: [&str; 6] = [
    "bytes allocated per timer",
    "bytes allocated beside the message",
    "bytes resident per timer",
    "bytes resident beside the message",
    "bytes allocated per timer after cancel",
    "bytes resident per timer after cancel",
];

const SOONEST: Duration = Duration::from_secs(600);
const SPAN_MS: u64 = 3_600_000;
/// The maximum size for `notify_later`: cancels take quadratic time.
const LARGEST_OF_NOTIFY_LATER: usize = 100_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for &size in &arguments.sizes {
        let tasks: Vec<Task> = SUBJECTS
            .into_iter()
            .filter(|subject| arguments.wants_peer(subject))
            .filter(|subject| child::is_within("memory", subject, size, largest(subject)))
            .map(|subject| Task { workload: "memory", subject, size: size as u64, seconds: 0 })
            .collect();
        rows.extend(child::measure(&tasks, &UNITS, arguments.rounds()));
    }
}

fn largest(subject: &str) -> usize {
    if subject == "notify-later" { LARGEST_OF_NOTIFY_LATER } else { usize::MAX }
}

pub(crate) fn in_child(request: &Request) -> Figures {
    let size = request.size as usize;
    System::new().block_on(async {
        match request.subject.as_str() {
            "actix-timers, context" => memory::<OwnContext>(size).await,
            "delay-queue, do_send" => memory::<Queue>(size).await,
            "tokio-sleep" => memory::<Sleeps>(size).await,
            "notify-later" => memory::<NotifyLater>(size).await,
            unknown => panic!("no such subject: {unknown}"),
        }
    })
}

#[derive(Clone, Copy)]
struct Memory {
    allocated: u64,
    resident: u64,
}

impl Memory {
    /// Returns the usage after all ready tasks have been polled, which frees aborted ones.
    async fn now(planner: &Planner) -> Self {
        for _ in 0..3 {
            planner.run(|_| ()).await;
            actix::spawn(async {}).await.expect("a task");
        }
        Self { allocated: heap::allocated(), resident: process::resident_bytes() }
    }
}

async fn memory<S: Sender>(size: usize) -> Figures {
    let planner = Planner::start(None);
    let sender = S::to(vec![planner.addr.clone()]);
    let before = Memory::now(&planner).await;

    let schedule = move |ctx: &mut _| {
        let mut random = Random::new(1);
        let now = Instant::now();
        let mut handles = Vec::with_capacity(size);
        for number in 0..size as u32 {
            let deadline = now + SOONEST + Duration::from_millis(random.below(SPAN_MS));
            handles.push(sender.schedule(ctx, Due::new(deadline, number)));
        }
        (sender, handles)
    };
    let (sender, mut handles) = planner.run(schedule).await;
    let pending = Memory::now(&planner).await;
    assert_eq!(handles.len(), size);

    let cancel = move |ctx: &mut _| {
        Random::new(2).shuffle(&mut handles);
        handles.drain(..).for_each(|handle| sender.cancel(ctx, handle));
        sender
    };
    let sender = planner.run(cancel).await;
    let cancelled = Memory::now(&planner).await;
    drop(sender);

    let per_timer = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / size as f64;
    let message = size_of::<Due>() as f64;
    let allocated = per_timer(pending.allocated, before.allocated);
    let resident = per_timer(pending.resident, before.resident);
    Figures::new([
        (UNITS[0], allocated),
        (UNITS[1], allocated - message),
        (UNITS[2], resident),
        (UNITS[3], resident - message),
        (UNITS[4], per_timer(cancelled.allocated, before.allocated)),
        (UNITS[5], per_timer(cancelled.resident, before.resident)),
    ])
}
