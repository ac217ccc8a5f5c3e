//! The crate `hierarchical_hash_wheel_timer` with its own thread, which receives requests through a channel. A round is over
//! when it has executed them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use bench::random::Random;
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};

use crate::rounds::Life;

type OneShot = OneShotClosureState<u64>;
type Periodic = PeriodicClosureState<u64>;
type Reference = TimerRef<u64, OneShot, Periodic>;

pub(crate) fn live(life: &mut Life, size: usize) {
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
