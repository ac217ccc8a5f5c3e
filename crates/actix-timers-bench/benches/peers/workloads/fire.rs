//! N messages due within two seconds: their lateness and cost.
//!
//! All are scheduled before the first is due. The two seconds begin at a time fixed before the scheduling begins, late
//! enough for every subject to finish it. "After scheduling" begins when all tasks and contexts have been polled once:
//! a sleeping task joins tokio's wheel only then. Subjects whose messages come early have no lateness.

use std::time::{Duration, Instant};

use actix::System;

use crate::arguments::Arguments;
use crate::child::{self, Figures, Participant, Request, Task};
use crate::contenders::external;
use crate::senders::Sender;
use crate::senders::delay_queue::Queue;
use crate::senders::hash_wheel::HashWheel;
use crate::senders::messages::Due;
use crate::senders::notify_later::NotifyLater;
use crate::senders::ours::{OwnContext, ToTarget};
use crate::senders::tokio_sleep::Sleeps;
use crate::workloads::stage::{Stage, lead};
use bench::process;
use bench::random::Random;
use bench::rows::{OURS, Rows};

const SUBJECTS: [&str; 8] = [
    "actix-timers, context",
    "actix-timers, recipient",
    "actix-timers, foreign",
    "delay-queue, do_send",
    "delay-queue, foreign",
    "tokio-sleep",
    "notify-later",
    "hash-wheel-timer",
];

const LATE: [(&str, f64); 4] =
    [("p50 ms late", 0.5), ("p99 ms late", 0.99), ("p99.9 ms late", 0.999), ("max ms late", 1.0)];
const EARLY: &str = "messages early";
const CPU_AFTER: &str = "CPU s after scheduling";
const CPU_IN_ALL: &str = "CPU s in all";
const UNITS: [&str; 7] = [LATE[0].0, LATE[1].0, LATE[2].0, LATE[3].0, EARLY, CPU_AFTER, CPU_IN_ALL];

const LONGEST: u64 = 2;
const LARGEST: usize = 1_000_000;
/// The maximum size for `notify_later`: each wake-up polls all timers.
const LARGEST_OF_NOTIFY_LATER: usize = 10_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for &size in &arguments.sizes {
        let seconds = arguments.seconds.min(LONGEST);
        let tasks = SUBJECTS
            .into_iter()
            .filter(|subject| arguments.wants_peer(subject))
            .filter(|subject| child::is_within("fire", subject, size, largest(subject)))
            .map(|subject| Task { workload: "fire", subject, size: size as u64, seconds });
        let mut participants: Vec<Participant> = tasks.map(|task| Participant::from(&task)).collect();
        if size <= LARGEST {
            participants.extend(external::firing(arguments, size, seconds));
        }
        rows.extend(child::in_turn(participants, &UNITS, arguments.rounds()));
    }
}

fn largest(subject: &str) -> usize {
    if subject == "notify-later" { LARGEST_OF_NOTIFY_LATER } else { LARGEST }
}

pub(crate) fn in_child(request: &Request) -> Figures {
    let size = request.size as usize;
    let span = Duration::from_secs(request.seconds);
    let figures = System::new().block_on(async {
        match request.subject.as_str() {
            "actix-timers, context" => fire::<OwnContext>(Stage::here(size, 1), size, span).await,
            "actix-timers, recipient" => fire::<ToTarget>(Stage::here(size, 1), size, span).await,
            "actix-timers, foreign" => fire::<ToTarget>(Stage::elsewhere(size), size, span).await,
            "delay-queue, do_send" => fire::<Queue>(Stage::here(size, 1), size, span).await,
            "delay-queue, foreign" => fire::<Queue>(Stage::elsewhere(size), size, span).await,
            "tokio-sleep" => fire::<Sleeps>(Stage::here(size, 1), size, span).await,
            "notify-later" => fire::<NotifyLater>(Stage::here(size, 1), size, span).await,
            "hash-wheel-timer" => fire::<HashWheel>(Stage::here(size, 1), size, span).await,
            unknown => panic!("no such subject: {unknown}"),
        }
    });
    assert!(!request.subject.starts_with(OURS) || figures.get(EARLY) == 0.0, "messages came early");
    figures
}

async fn fire<S: Sender>(mut stage: Stage, size: usize, span: Duration) -> Figures {
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

    let delivered = stage.delivered(begin + span).await;
    let after = process::cpu();
    let delivered = delivered.sorted();
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
    Figures::new(figures)
}
