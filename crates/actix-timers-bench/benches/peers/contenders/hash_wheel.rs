//! The crate `hierarchical_hash_wheel_timer`: four wheels of 256 buckets and a hash map from ids to entries.
//!
//! A cancel removes the entry from the map; its rest in the wheel is freed when its bucket is reached.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};

use crate::contenders::structure::{self, Structure};
use crate::rounds::Life;
use bench::random::Random;

/// A payload of 16 bytes, the first half of which is the id.
#[derive(Debug)]
struct Payload([u64; 2]);

impl CancellableTimerEntry for Payload {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0[0]
    }
}

fn insert(wheel: &mut QuadWheelWithOverflow<Payload>, delay: Duration, id: u64) {
    wheel.insert_ref_with_delay(Rc::new(Payload([id; 2])), delay).unwrap();
}

/// The bare wheel. It does not tell the number of its entries, and an unknown id is an error.
pub(crate) fn live(life: &mut Life, size: usize) {
    structure::live(life, size, &mut Bare { wheel: QuadWheelWithOverflow::new(), entries: 0 });
}

struct Bare {
    wheel: QuadWheelWithOverflow<Payload>,
    entries: usize,
}

impl Structure for Bare {
    type Key = u64;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> u64 {
        insert(&mut self.wheel, Duration::from_millis(deadline), number);
        self.entries += 1;
        number
    }

    #[inline]
    fn remove(&mut self, id: u64) {
        self.wheel.cancel(&id).unwrap();
        self.entries -= 1;
    }

    fn len(&self) -> usize {
        self.entries
    }
}

pub(crate) fn expire(life: &mut Life, size: usize) {
    let mut random = Random::new(1);
    let mut wheel = QuadWheelWithOverflow::new();
    for id in 0..size as u64 {
        insert(&mut wheel, random.delay(), id);
    }
    let expired = life.time("expire", size, || {
        let mut expired = 0;
        loop {
            match wheel.can_skip() {
                Skip::Empty => return expired,
                Skip::Millis(ticks) => wheel.skip(ticks),
                Skip::None => {}
            }
            expired += black_box(wheel.tick()).len();
        }
    });
    assert_eq!(expired, size);
}

type OneShot = OneShotClosureState<u64>;
type Periodic = PeriodicClosureState<u64>;
type Reference = TimerRef<u64, OneShot, Periodic>;

/// The timer with its own thread, which receives requests through a channel. A round is over when it has executed them.
pub(crate) fn live_with_thread(life: &mut Life, size: usize) {
    let core: TimerWithThread<u64, OneShot, Periodic> = TimerWithThread::new().unwrap();
    let mut timer = core.timer_ref();
    let (arrivals, arrived) = mpsc::channel();
    let mut random = Random::new(1);
    let mut ids: Vec<u64> = (0..size as u64).collect();
    let began = Instant::now();
    for id in &ids {
        start(&mut timer, &arrivals, *id, random.delay());
    }
    wait_until_done(&mut timer);
    life.keep("start", size, began.elapsed());
    if life.wants("churn") {
        let began = Instant::now();
        for id in size as u64..2 * size as u64 {
            start(&mut timer, &arrivals, id, random.delay());
            let old = std::mem::replace(&mut ids[random.index(size)], id);
            timer.cancel(&old);
        }
        wait_until_done(&mut timer);
        life.keep("churn", size, began.elapsed());
    }
    random.shuffle(&mut ids);
    let began = Instant::now();
    for id in &ids {
        timer.cancel(id);
    }
    wait_until_done(&mut timer);
    life.keep("stop", size, began.elapsed());
    // A cancelled action is dropped with its end of the channel; a remaining one would still hold it.
    drop(arrivals);
    assert_eq!(arrived.recv(), Err(mpsc::RecvError), "all were cancelled");
    drop(timer);
    core.shutdown().unwrap();
}

fn start(timer: &mut Reference, arrivals: &mpsc::Sender<[u64; 4]>, id: u64, delay: Duration) {
    let (arrivals, message) = (arrivals.clone(), [id; 4]);
    timer.schedule_action_once(id, delay, move |_| arrivals.send(message).unwrap());
}

/// Requests are processed in order, and a timer due at once runs at once.
fn wait_until_done(timer: &mut Reference) {
    let (done, is_done) = mpsc::channel();
    timer.schedule_action_once(u64::MAX, Duration::ZERO, move |_| done.send(()).unwrap());
    is_done.recv().unwrap();
}
