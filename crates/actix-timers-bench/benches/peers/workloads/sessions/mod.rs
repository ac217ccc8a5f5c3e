//! Sessions: N actors with one timer each, a heartbeat or an idle time-out that each message puts off.
//!
//! A measurement takes these steps, on one thread:
//!
//! 1. Start: the sessions start evenly over one period of the heartbeat, half of the given seconds.
//! 2. Quiet: for the given seconds nothing but timers. At the end every heartbeat has fired at least twice. The memory
//!    is read then.
//! 3. Messages: for the given seconds, 20 000 messages a second to the sessions in turn, in random order. The CPU time
//!    includes the sending task, which wakes up every millisecond.
//! 4. The cost of an ordinary message, which leaves the timer alone: the CPU time of a request and its reply, to one
//!    of the sessions and to an actor without a timer, in alternate blocks; the first quartile of the blocks.
//! 5. The end: every heartbeat has fired once per period, no time-out has; and time-outs that are reset to 200 ms
//!    fire once, not earlier.
//!
//! The CPU time is that of the whole process, other threads included. Sessions without a timer are measured, too, as
//! the floor of steps 1 and 3.

mod session;

use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, System};
use tokio::time::{interval, sleep, timeout};

use self::session::{Activity, Bare, ByKey, Fired, FixedRate, Moved, RunInterval, RunLater, Session, Shared, Timer};
use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::heap::Memory;
use bench::process;
use bench::random::Random;
use bench::rows::Rows;
use bench::times::each;

pub(crate) static WORKLOADS: [Workload; 3] = [
    Workload {
        name: "sessions, heartbeat",
        units: &UNITS,
        subjects: &[
            Subject::new("actix-timers", LARGEST, |load| in_system(heartbeats::<FixedRate>(load))),
            Subject::new("run-interval", LARGEST, |load| in_system(heartbeats::<RunInterval>(load))),
        ],
    },
    Workload {
        name: "sessions, time-out",
        units: &UNITS,
        subjects: &[
            Subject::new("actix-timers", LARGEST, |load| in_system(time_outs::<Moved>(load))),
            Subject::new("actix-timers, by key", LARGEST, |load| in_system(time_outs::<ByKey>(load))),
            Subject::new("run-later", LARGEST, |load| in_system(time_outs::<RunLater>(load))),
        ],
    },
    Workload {
        name: "sessions, no timer",
        units: &UNITS,
        subjects: &[Subject::new("do-send", LARGEST, |load| in_system(no_timers(load)))],
    },
];
const UNITS: [&str; 6] = [
    "bytes allocated per session",
    "bytes resident per session",
    "CPU s quiet",
    "CPU s with messages",
    "ns per message",
    "times the cost without timers",
];

const LARGEST: usize = 100_000;
const PER_SECOND: u64 = 20_000;
/// Of the ordinary messages: blocks to each of the two actors, and messages in a block. A block is shorter than a
/// tick, so that most are free of heartbeats.
const BLOCKS: usize = 1_000;
const BLOCK: usize = 100;
/// The delay of the time-outs that do fire, in the end.
const SHORT: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for workload in &WORKLOADS {
        for &size in &arguments.sizes {
            rows.extend(workload.measure(arguments, Load { size, seconds: arguments.seconds }));
        }
    }
}

fn in_system(measuring: impl Future<Output = Figures>) -> Figures {
    System::new().block_on(measuring)
}

async fn heartbeats<T: Timer>(load: Load) -> Figures {
    let plan = Plan::of(load);
    let mut sessions = Sessions::<T>::new(plan, plan.period);
    let figures = sessions.measure().await;
    sessions.have_beaten(plan.period).await;
    figures
}

async fn time_outs<T: Timer>(load: Load) -> Figures {
    let plan = Plan::of(load);
    let mut sessions = Sessions::<T>::new(plan, plan.time_out);
    sessions.shared.not_before.set(Some(Instant::now() + plan.time_out));
    let figures = sessions.measure().await;
    sessions.time_out().await;
    figures
}

async fn no_timers(load: Load) -> Figures {
    let mut sessions = Sessions::<Bare>::new(Plan::of(load), Duration::MAX);
    let before = Memory::now();
    sessions.start().await;
    let [allocated, resident] = sessions.bytes_since(before);
    let busy = sessions.with_messages().await;
    assert_eq!(sessions.shared.fired.get(), 0);
    vec![(UNITS[0], allocated), (UNITS[1], resident), (UNITS[3], busy)]
}

#[derive(Clone, Copy)]
struct Plan {
    size: usize,
    /// The duration of the quiet time, and of the time with messages.
    duration: Duration,
    period: Duration,
    /// Longer than all measurements.
    time_out: Duration,
}

impl Plan {
    fn of(Load { size, seconds }: Load) -> Self {
        let duration = Duration::from_secs(seconds);
        let (period, time_out) = (duration / 2, duration * 3 + Duration::from_secs(30));
        Self { size, duration, period, time_out }
    }
}

struct Sessions<T: Timer> {
    plan: Plan,
    shared: Rc<Shared>,
    /// The sessions, each with the time of its start.
    sessions: Vec<(Addr<Session<T>>, Instant)>,
    /// The order of the messages.
    order: Vec<u32>,
}

impl<T: Timer> Sessions<T> {
    /// Returns no sessions yet, but the room for them, so that it is not counted.
    fn new(plan: Plan, span: Duration) -> Self {
        let shared = Rc::new(Shared::default());
        shared.span.set(span);
        let mut order: Vec<u32> = (0..plan.size as u32).collect();
        Random::new(1).shuffle(&mut order);
        Self { plan, shared, sessions: Vec::with_capacity(plan.size), order }
    }

    async fn measure(&mut self) -> Figures {
        let before = Memory::now();
        self.start().await;
        let quiet = self.quiet().await;
        let [allocated, resident] = self.bytes_since(before);
        let busy = self.with_messages().await;
        let Cost { nanoseconds, growth } = self.ordinary_messages().await;
        UNITS.into_iter().zip([allocated, resident, quiet, busy, nanoseconds, growth]).collect()
    }

    async fn start(&mut self) {
        let Self { plan, shared, sessions, .. } = self;
        paced(plan.size, plan.period, |_| sessions.push((Session::new(shared).start(), Instant::now()))).await;
        all_polled().await;
    }

    fn bytes_since(&self, before: Memory) -> [f64; 2] {
        Memory::now().each_since(before, self.plan.size)
    }

    /// Returns the CPU seconds of a time without messages, in whole milliseconds: less is spent on measuring.
    async fn quiet(&self) -> f64 {
        let before = process::cpu();
        sleep(self.plan.duration).await;
        (process::cpu() - before).as_millis() as f64 / 1e3
    }

    /// Returns the CPU seconds of a time with messages.
    async fn with_messages(&self) -> f64 {
        let messages = (PER_SECOND * self.plan.duration.as_secs()) as usize;
        let before = process::cpu();
        paced(messages, self.plan.duration, |n| {
            let (session, _) = &self.sessions[self.order[n % self.order.len()] as usize];
            session.do_send(Activity);
        })
        .await;
        // A session that another thread has woken, such as the watchdog's after a stall, waits in another queue of tasks.
        let all_handled = async {
            while self.shared.messages.get() < messages as u64 {
                all_polled().await;
            }
        };
        timeout(PATIENCE, all_handled).await.expect("messages were lost");
        (process::cpu() - before).as_secs_f64()
    }

    async fn ordinary_messages(&self) -> Cost {
        let (session, _) = &self.sessions[self.order[0] as usize];
        let bare = Session::<Bare>::new(&self.shared).start();
        let (mut with_timer, mut without) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            with_timer.push(block(session).await);
            without.push(block(&bare).await);
        }
        let [with_timer, without] = [with_timer, without].map(quartile);
        Cost { nanoseconds: with_timer, growth: with_timer / without }
    }

    /// Checks that each heartbeat has fired in each of its periods so far.
    async fn have_beaten(&self, period: Duration) {
        for (session, start) in &self.sessions {
            let beats = session.send(Fired).await.expect("the session lives");
            let due = (start.elapsed().as_secs_f64() / period.as_secs_f64()) as u32;
            // The last may be on its way, and ours skip one if the machine stalls for longer than a period.
            assert!((due.saturating_sub(2)..=due).contains(&beats), "{beats} heartbeats instead of {due}");
        }
    }

    /// Checks that no time-out has fired, and that each fires once after a reset to a short one.
    async fn time_out(&self) {
        assert_eq!(self.shared.fired.get(), 0);
        self.shared.span.set(SHORT);
        self.shared.not_before.set(Some(Instant::now() + SHORT));
        self.sessions.iter().for_each(|(session, _)| session.do_send(Activity));
        let all_fired = async {
            while self.shared.fired.get() < self.plan.size as u64 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, all_fired).await.expect("time-outs were lost");
        for (session, _) in &self.sessions {
            assert_eq!(session.send(Fired).await, Ok(1));
        }
    }
}

/// The cost of an ordinary message to a session.
struct Cost {
    nanoseconds: f64,
    /// The ratio to the cost without a timer.
    growth: f64,
}

/// Returns the CPU nanoseconds of a request and its reply.
async fn block<T: Timer>(session: &Addr<Session<T>>) -> f64 {
    let before = process::thread_cpu();
    for _ in 0..BLOCK {
        session.send(Fired).await.expect("the session lives");
    }
    each(process::thread_cpu() - before, BLOCK)
}

/// Returns the first quartile: a disturbance makes a block longer, never shorter.
fn quartile(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 4]
}

/// Waits until all ready tasks have been polled: they take turns, so a new one comes last.
async fn all_polled() {
    actix::spawn(async {}).await.expect("a task");
}

/// Executes `each` this many times, evenly over a time, in steps of a millisecond.
async fn paced(count: usize, over: Duration, mut each: impl FnMut(usize)) {
    let began = Instant::now();
    let mut steps = interval(Duration::from_millis(1));
    let mut done = 0;
    while done < count {
        steps.tick().await;
        let owed = count as f64 * began.elapsed().as_secs_f64() / over.as_secs_f64();
        let owed = (owed as usize).min(count);
        (done..owed).for_each(&mut each);
        done = owed;
    }
}
