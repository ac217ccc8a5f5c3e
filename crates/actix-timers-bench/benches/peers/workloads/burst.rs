//! N messages due at the same moment, to one recipient and to a thousand: the time until all have come, and the delay
//! of another actor's messages on the same arbiter.
//!
//! That other actor, the bystander, gets a message every millisecond from another thread, which does not wait for their
//! handling. All messages sent between the deadline and the last delivery count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, Message, MessageResult, System};

use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::senders::messages::Due;
use crate::senders::{OwnContext, Queue, Sender, ToTarget};
use crate::workloads::stage::{Stage, lead};
use bench::rows::Rows;
use bench::times::{millis, quantile};

pub(crate) static WORKLOADS: [Workload; 2] = [
    Workload { name: "burst to 1", units: &UNITS, subjects: &subjects::<1>() },
    Workload { name: "burst to 1000", units: &UNITS, subjects: &subjects::<1000>() },
];
const UNITS: [&str; 3] = ["ms until all came", "p99 ms bystander waits", "max ms bystander waits"];
const LARGEST: usize = 1_000_000;

const fn subjects<const RECEIVERS: usize>() -> [Subject; 3] {
    [
        Subject::new("actix-timers, context", LARGEST, burst::<OwnContext, RECEIVERS>),
        Subject::new("actix-timers, recipient", LARGEST, burst::<ToTarget, RECEIVERS>),
        Subject::new("delay-queue, do_send", LARGEST, burst::<Queue, RECEIVERS>),
    ]
}

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for workload in &WORKLOADS {
        for &size in &arguments.sizes {
            rows.extend(workload.measure(arguments, Load { size, seconds: 0 }));
        }
    }
}

fn burst<S: Sender, const RECEIVERS: usize>(Load { size, .. }: Load) -> Figures {
    System::new().block_on(async { measure::<S>(Stage::here(size, RECEIVERS), size).await })
}

async fn measure<S: Sender>(mut stage: Stage, size: usize) -> Figures {
    let receivers = stage.receivers.len();
    let mut sender = S::to(stage.receivers.clone());
    let deadline = Instant::now() + lead(size);
    for (receiver, planner) in stage.planners.iter().enumerate() {
        let schedule = move |ctx: &mut _| {
            for number in (receiver..size).step_by(receivers) {
                sender.schedule(ctx, Due::new(deadline, number as u32).to(receiver as u32));
            }
            sender
        };
        sender = planner.run(schedule).await;
    }
    stage.all_polled().await;
    let bystander = Bystander { waits: Vec::with_capacity(100_000) }.start();
    let is_enough = Arc::new(AtomicBool::new(false));
    let (pinged, told) = (bystander.clone(), Arc::clone(&is_enough));
    let pinging = thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            pinged.do_send(Ping { sent: Instant::now() });
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(Instant::now() < deadline, "the machine is too slow: the messages are due, and not all are scheduled");

    let delivered = stage.delivered(deadline).await;
    // At least one ping is sent after all deliveries.
    thread::sleep(Duration::from_millis(5));
    is_enough.store(true, Ordering::Relaxed);
    pinging.join().expect("the pinging thread");
    assert_eq!(delivered.count(), size);
    let meanwhile = Meanwhile { from: deadline, until: delivered.last };
    let mut waits = bystander.send(meanwhile).await.expect("the bystander lives");
    let [p99, most] = [0.99, 1.0].map(|share| millis(quantile(&mut waits, share)));
    UNITS.into_iter().zip([millis(delivered.last - deadline), p99, most]).collect()
}

/// An actor unrelated to the timers.
struct Bystander {
    /// The time of each ping, and its delay.
    waits: Vec<(Instant, Duration)>,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ping {
    sent: Instant,
}

/// Requests the delays of pings sent in this time. There is at least one: the first ping after the deadline.
#[derive(Message)]
#[rtype(result = "Vec<Duration>")]
struct Meanwhile {
    from: Instant,
    until: Instant,
}

impl Actor for Bystander {
    type Context = Context<Self>;
}

impl Handler<Ping> for Bystander {
    type Result = ();

    fn handle(&mut self, Ping { sent }: Ping, _: &mut Context<Self>) {
        self.waits.push((sent, sent.elapsed()));
    }
}

impl Handler<Meanwhile> for Bystander {
    type Result = MessageResult<Meanwhile>;

    fn handle(&mut self, Meanwhile { from, until }: Meanwhile, _: &mut Context<Self>) -> Self::Result {
        let after = self.waits.iter().skip_while(|(sent, _)| *sent < from).enumerate();
        let meanwhile = after.take_while(|(place, (sent, _))| *place == 0 || *sent <= until);
        MessageResult(meanwhile.map(|(_, (_, wait))| *wait).collect())
    }
}
