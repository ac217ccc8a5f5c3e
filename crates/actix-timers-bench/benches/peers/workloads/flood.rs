//! Timers are scheduled as fast as possible for two seconds, while a thousand others per second are due: the lateness
//! of the latter.
//!
//! The flood comes from an actor of the same arbiter, which schedules 256 at a time and yields in between; or as
//! messages from another thread, which never waits. The timers of the flood are due after an hour.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix::fut::ActorFuture;
use actix::{AsyncContext, System};
use actix_timers::{ScheduleAfter, Target, TimerActor, Timers};
use tokio::sync::oneshot;

use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::senders::messages::{Due, Planner, Receiver};
use crate::senders::{OwnContext, Queue, Sender};
use crate::workloads::stage::Stage;
use bench::random::Random;
use bench::rows::Rows;
use bench::times::each;

pub(crate) static WORKLOAD: Workload = Workload {
    name: "flood",
    units: &UNITS,
    subjects: &[
        Subject::new("actix-timers, context", usize::MAX, |load| flood(From::Context, load)),
        Subject::new("actix-timers, messages", usize::MAX, |load| flood(From::Thread, load)),
        Subject::new("delay-queue, do_send", usize::MAX, |load| flood(From::Queue, load)),
    ],
};
const UNITS: [&str; 4] = ["p50 ms late", "p99 ms late", "max ms late", "ns per schedule"];

const LONGEST: u64 = 2;
const DUE_PER_SECOND: u64 = 1000;
/// Timers scheduled before the flood yields.
const BATCH: usize = 256;
const HOUR: Duration = Duration::from_secs(3600);
/// The time before the flood, for scheduling the measured timers.
const LEAD: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    let seconds = arguments.seconds.min(LONGEST);
    let size = DUE_PER_SECOND as usize * seconds as usize;
    rows.extend(WORKLOAD.measure(arguments, Load { size, seconds }));
}

#[derive(Clone, Copy)]
enum From {
    Context,
    Thread,
    Queue,
}

fn flood(from: From, Load { size, seconds }: Load) -> Figures {
    let due = size as u64;
    System::new().block_on(async {
        let timers = TimerActor::builder().install().expect("a timer actor");
        let mut stage = Stage::here(size, 1);
        let receiver = stage.planners[0].clone();
        let time = Time::starting_soon(seconds);
        let accepted = || timers.snapshot().counters.accepted - due;
        let mut queue = None;
        let flooded = match from {
            From::Context => {
                let sender = time.schedule_due(&receiver, OwnContext, due).await;
                time.flood_from_context(sender).await
            }
            From::Thread => {
                time.schedule_due(&receiver, OwnContext, due).await;
                time.flood_from_thread(&timers, &receiver, accepted).await
            }
            From::Queue => {
                let sender = time.schedule_due(&receiver, Queue::to(stage.receivers.clone()), due).await;
                queue = Some(Rc::clone(&sender));
                time.flood_from_context(sender).await
            }
        };
        let mut delivered = stage.delivered(time.end).await;
        assert_eq!(delivered.count() as u64, due);
        assert_eq!(queue.map_or_else(accepted, |queue| queue.len() as u64), flooded.timers);
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| delivered.late(share));
        UNITS.into_iter().zip([p50, p99, most, each(flooded.took, flooded.timers as usize)]).collect()
    })
}

/// The result of the flood.
struct Flooded {
    timers: u64,
    /// The time until the last timer was accepted.
    took: Duration,
}

/// The beginning and end of the flood.
#[derive(Clone, Copy)]
struct Time {
    begin: Instant,
    end: Instant,
}

impl Time {
    fn starting_soon(seconds: u64) -> Self {
        let begin = Instant::now() + LEAD;
        Self { begin, end: begin + Duration::from_secs(seconds) }
    }

    /// Schedules the measured timers, and waits for the beginning.
    async fn schedule_due<S: Sender>(self, receiver: &Planner, sender: S, due: u64) -> Rc<S> {
        let Self { begin, end } = self;
        let schedule = move |ctx: &mut _| {
            let mut random = Random::new(1);
            for number in 0..due as u32 {
                let deadline = begin + Duration::from_nanos(random.below((end - begin).as_nanos() as u64));
                sender.schedule(ctx, Due::new(deadline, number));
            }
            sender
        };
        let sender = receiver.run(schedule).await;
        assert!(Instant::now() < begin, "the machine is too slow: the first message is due, and not all are scheduled");
        tokio::time::sleep_until(begin.into()).await;
        Rc::new(sender)
    }

    async fn flood_from_context<S: Sender>(self, sender: Rc<S>) -> Flooded {
        let (done, is_done) = oneshot::channel();
        let flood = Flood { sender, end: self.end, timers: 0, done: Some(done) };
        Planner::start(None).run(|ctx| ctx.spawn(flood)).await;
        let timers = is_done.await.expect("the actor lives");
        Flooded { timers, took: self.begin.elapsed() }
    }

    async fn flood_from_thread(self, timers: &Timers, receiver: &Planner, taken_in: impl Fn() -> u64) -> Flooded {
        let (timer_actor, target) = (timers.addr().clone(), Target::from(&receiver.addr));
        let flood = move || {
            let later = Due::new(self.end + HOUR, 0);
            let mut timers = 0;
            while Instant::now() < self.end {
                for _ in 0..BATCH {
                    timer_actor.do_send(ScheduleAfter::new(target.clone(), HOUR, later));
                }
                timers += BATCH as u64;
            }
            timers
        };
        let sent = tokio::task::spawn_blocking(flood).await.expect("the flooding thread");
        while taken_in() < sent {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Flooded { timers: sent, took: self.begin.elapsed() }
    }
}

/// A future in an actor's context that schedules until the end.
struct Flood<S> {
    sender: Rc<S>,
    end: Instant,
    timers: u64,
    done: Option<oneshot::Sender<u64>>,
}

impl<S: Sender> ActorFuture<Receiver> for Flood<S> {
    type Output = ();

    fn poll(
        mut self: Pin<&mut Self>,
        _: &mut Receiver,
        ctx: &mut actix::Context<Receiver>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let now = Instant::now();
        if now >= self.end {
            let timers = self.timers;
            let _ = self.done.take().map(|done| done.send(timers));
            return Poll::Ready(());
        }
        for _ in 0..BATCH {
            self.sender.schedule(ctx, Due::new(now + HOUR, 0));
        }
        self.timers += BATCH as u64;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
