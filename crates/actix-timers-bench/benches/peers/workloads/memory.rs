//! Bytes per pending timer, with the handle that its owner keeps to cancel it; the bytes left after the cancel of all,
//! at once and after a rest; and the longest time in that rest in which the arbiter did nothing else.
//!
//! Two measures: allocated and resident bytes. Delays are longer than elsewhere, 10 to 70 minutes, so that no timer is
//! due while ten million are scheduled and cancelled.

use std::time::{Duration, Instant};

use actix::System;

use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::heap::Memory;
use crate::senders::messages::{Due, Planner};
use crate::senders::{NotifyLater, OwnContext, Queue, Sender, Sleeps};
use bench::random::Random;
use bench::rows::Rows;

pub(crate) static WORKLOAD: Workload = Workload {
    name: "memory",
    units: &UNITS,
    subjects: &[
        Subject::new("actix-timers, context", usize::MAX, memory::<OwnContext>),
        Subject::new("delay-queue, do_send", usize::MAX, memory::<Queue>),
        Subject::new("tokio-sleep", usize::MAX, memory::<Sleeps>),
        // Cancels take quadratic time.
        Subject::new("notify-later", 100_000, memory::<NotifyLater>),
    ],
};
const UNITS: [&str; 9] = [
    "bytes allocated per timer",
    "bytes allocated beside the message",
    "bytes resident per timer",
    "bytes resident beside the message",
    "bytes allocated per timer after cancel",
    "bytes resident per timer after cancel",
    "MB allocated in the process after a rest",
    "MB resident in the process after a rest",
    "ms of the longest pause in the rest",
];

const SOONEST: Duration = Duration::from_secs(600);
const SPAN_MS: u64 = 3_600_000;
/// The rest, as a multiple of `--seconds`.
const REST: u64 = 4;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for &size in &arguments.sizes {
        rows.extend(WORKLOAD.measure(arguments, Load { size, seconds: REST * arguments.seconds }));
    }
}

fn memory<S: Sender>(load: Load) -> Figures {
    System::new().block_on(measure::<S>(load))
}

/// Returns the usage after all ready tasks have been polled, which frees aborted ones.
async fn settled(planner: &Planner) -> Memory {
    for _ in 0..3 {
        planner.run(|_| ()).await;
        actix::spawn(async {}).await.expect("a task");
    }
    Memory::now()
}

async fn measure<S: Sender>(Load { size, seconds }: Load) -> Figures {
    let planner = Planner::start(None);
    let sender = S::to(vec![planner.addr.clone()]);
    let before = settled(&planner).await;

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
    let pending = settled(&planner).await;
    assert_eq!(handles.len(), size);

    let cancel = move |ctx: &mut _| {
        Random::new(2).shuffle(&mut handles);
        handles.drain(..).for_each(|handle| sender.cancel(ctx, handle));
        sender
    };
    let sender = planner.run(cancel).await;
    let cancelled = settled(&planner).await;
    let pause = longest_pause(Duration::from_secs(seconds)).await;
    let rested = Memory::now();
    drop(sender);

    let message = size_of::<Due>() as f64;
    let [allocated, resident] = pending.each_since(before, size);
    let [allocated_after, resident_after] = cancelled.each_since(before, size);
    let pending = [allocated, allocated - message, resident, resident - message];
    let [allocated_rested, resident_rested] = rested.megabytes();
    let after = [allocated_after, resident_after, allocated_rested, resident_rested, pause.as_secs_f64() * 1e3];
    UNITS.into_iter().zip(pending.into_iter().chain(after)).collect()
}

/// Keeps the arbiter busy with a task that yields all the time. Returns the longest time until its next turn.
async fn longest_pause(rest: Duration) -> Duration {
    let (begin, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    while begin.elapsed() < rest {
        tokio::task::yield_now().await;
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}
