//! `tokio_util::time::DelayQueue`: a hierarchical wheel of six levels of 64 buckets, in ticks of a millisecond.

use std::future::poll_fn;
use std::hint::black_box;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::contenders::structure::{self, Structure};
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

fn live<T, I>(life: &mut Life, size: usize, insert: I)
where
    I: Fn(&mut DelayQueue<T>, Instant, Duration, u64) -> delay_queue::Key,
{
    // The queue sets a tokio sleep to its first deadline.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    structure::live(life, size, &mut Queue { entries: DelayQueue::new(), origin: Instant::now(), insert });
}

struct Queue<T, I> {
    entries: DelayQueue<T>,
    origin: Instant,
    insert: I,
}

impl<T, I> Structure for Queue<T, I>
where
    I: Fn(&mut DelayQueue<T>, Instant, Duration, u64) -> delay_queue::Key,
{
    type Key = delay_queue::Key;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> delay_queue::Key {
        (self.insert)(&mut self.entries, self.origin, Duration::from_millis(deadline), number)
    }

    #[inline]
    fn remove(&mut self, key: delay_queue::Key) {
        black_box(self.entries.remove(&key));
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
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
