//! N messages due within two seconds: their lateness and cost.
//!
//! All are scheduled before the first is due. The two seconds begin at a time fixed before the scheduling begins, late
//! enough for every subject to finish it. "After scheduling" begins when all tasks and contexts have been polled once:
//! a sleeping task joins tokio's wheel only then. Subjects whose messages come early have no lateness.

use std::time::{Duration, Instant};

use actix::System;

use crate::arguments::Arguments;
use crate::child::{self, Figures, Load, Subject, Workload};
use crate::contenders::external;
use crate::senders::messages::Due;
use crate::senders::{HashWheel, NotifyLater, OwnContext, Queue, Sender, Sleeps, ToTarget};
use crate::workloads::stage::{Stage, lead};
use bench::process;
use bench::random::Random;
use bench::rows::Rows;

pub(crate) static WORKLOAD: Workload = Workload {
    name: "fire",
    units: &UNITS,
    subjects: &[
        Subject::new("actix-timers, context", LARGEST, |load| never_early(here::<OwnContext>(load))),
        Subject::new("actix-timers, recipient", LARGEST, |load| never_early(here::<ToTarget>(load))),
        Subject::new("actix-timers, foreign", LARGEST, |load| never_early(elsewhere::<ToTarget>(load))),
        Subject::new("delay-queue, do_send", LARGEST, here::<Queue>),
        Subject::new("delay-queue, foreign", LARGEST, elsewhere::<Queue>),
        Subject::new("tokio-sleep", LARGEST, here::<Sleeps>),
        // Each wake-up polls all timers.
        Subject::new("notify-later", 10_000, here::<NotifyLater>),
        Subject::new("hash-wheel-timer", LARGEST, here::<HashWheel>),
    ],
};

const LATE: [(&str, f64); 4] =
    [("p50 ms late", 0.5), ("p99 ms late", 0.99), ("p99.9 ms late", 0.999), ("max ms late", 1.0)];
const EARLY: &str = "messages early";
const CPU_AFTER: &str = "CPU s after scheduling";
const CPU_IN_ALL: &str = "CPU s in all";
const UNITS: [&str; 7] = [LATE[0].0, LATE[1].0, LATE[2].0, LATE[3].0, EARLY, CPU_AFTER, CPU_IN_ALL];

const LONGEST: u64 = 2;
const LARGEST: usize = 1_000_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for &size in &arguments.sizes {
        let seconds = arguments.seconds.min(LONGEST);
        let mut participants = WORKLOAD.participants(arguments, Load { size, seconds });
        if size <= LARGEST {
            participants.extend(external::firing(arguments, size, seconds));
        }
        rows.extend(child::in_turn(participants, &UNITS, arguments.rounds()));
    }
}

fn here<S: Sender>(load: Load) -> Figures {
    System::new().block_on(async { fire::<S>(Stage::here(load.size, 1), load).await })
}

fn elsewhere<S: Sender>(load: Load) -> Figures {
    System::new().block_on(async { fire::<S>(Stage::elsewhere(load.size), load).await })
}

fn never_early(figures: Figures) -> Figures {
    assert!(figures.contains(&(EARLY, 0.0)), "messages came early");
    figures
}

async fn fire<S: Sender>(mut stage: Stage, Load { size, seconds }: Load) -> Figures {
    let span = Duration::from_secs(seconds);
    let before = process::cpu();
    let sender = S::to(stage.receivers.clone());
    let begin = Instant::now() + lead(size);
    let schedule = move |ctx: &mut _| {
        let mut random = Random::new(1);
        for number in 0..size as u32 {
            let deadline = begin + Duration::from_nanos(random.below(span.as_nanos() as u64));
            sender.schedule(ctx, Due::new(deadline, number));
        }
        // The sender may own the delivering task.
        sender
    };
    let _sender = stage.planners[0].run(schedule).await;
    stage.all_polled().await;
    let scheduled = process::cpu();
    assert!(Instant::now() < begin, "the machine is too slow: the first message is due, and not all are scheduled");

    let mut delivered = stage.delivered(begin + span).await;
    let after = process::cpu();
    assert_eq!(delivered.count(), size);
    let mut figures = vec![
        (EARLY, delivered.early as f64),
        (CPU_AFTER, (after - scheduled).as_secs_f64()),
        (CPU_IN_ALL, (after - before).as_secs_f64()),
    ];
    // Early messages are not late; that must not look like an advantage.
    if delivered.early == 0 {
        figures.extend(LATE.map(|(unit, part)| (unit, delivered.late(part))));
    }
    figures
}
