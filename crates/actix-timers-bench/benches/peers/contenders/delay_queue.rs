//! `tokio_util::time::DelayQueue`: a hierarchical wheel of six levels of 64 buckets, in ticks of a millisecond.

use std::future::poll_fn;
use std::hint::black_box;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::rounds::Life;
use bench::random::Random;

/// A queue with absolute deadlines, like a bare wheel.
pub(crate) fn live_at(life: &mut Life, size: usize) {
    live(life, size, |queue, origin, delay, n| queue.insert_at([n; 2], origin + delay));
}

/// A queue with delays that reads the clock, like an actor's context; with a message of 32 bytes.
pub(crate) fn live_after(life: &mut Life, size: usize) {
    live(life, size, |queue, _, delay, n| queue.insert([n; 4], delay));
}

fn live<T>(
    life: &mut Life,
    size: usize,
    insert: impl Fn(&mut DelayQueue<T>, Instant, Duration, u64) -> delay_queue::Key,
) {
    // The queue sets a tokio sleep to its first deadline.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let mut random = Random::new(1);
    let mut queue = DelayQueue::new();
    let mut keys: Vec<delay_queue::Key> = Vec::with_capacity(size);
    let origin = Instant::now();
    life.time("start", size, || {
        for n in 0..size as u64 {
            keys.push(insert(&mut queue, origin, random.delay(), n));
        }
    });
    if life.wants("churn") {
        life.time("churn", size, || {
            for n in 0..size as u64 {
                let fresh = insert(&mut queue, origin, random.delay(), n);
                let old = std::mem::replace(&mut keys[random.index(size)], fresh);
                black_box(queue.remove(&old));
            }
        });
    }
    if life.wants("steady-start") {
        random.shuffle(&mut keys);
        for key in keys.drain(size / 2..) {
            black_box(queue.remove(&key));
        }
        life.time("steady-start", size - size / 2, || {
            for n in (size / 2) as u64..size as u64 {
                keys.push(insert(&mut queue, origin, random.delay(), n));
            }
        });
    }
    assert_eq!(queue.len(), size);
    random.shuffle(&mut keys);
    life.time("stop", size, || {
        for key in keys.drain(..) {
            black_box(queue.remove(&key));
        }
    });
    assert!(queue.is_empty());
}

/// Entries expire in the order of their deadlines, all of which have passed on an advanced clock.
pub(crate) fn expire(life: &mut Life, size: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut random = Random::new(1);
        let mut queue = DelayQueue::new();
        let origin = Instant::now();
        for n in 0..size as u64 {
            queue.insert_at([n; 2], origin + random.delay());
        }
        tokio::time::advance(Duration::from_secs(3601)).await;
        let mut expired = 0;
        let began = std::time::Instant::now();
        while let Some(entry) = poll_fn(|context| queue.poll_expired(context)).await {
            black_box(entry.into_inner());
            expired += 1;
        }
        life.keep("expire", size, began.elapsed());
        assert_eq!(expired, size);
    });
}
