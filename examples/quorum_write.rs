//! Writes that are acknowledged as soon as a quorum of replicas has them, or fail after a time-out.
//!
//! A leader sends each entry to three followers, which need different times to store it. The write waits in a purgatory,
//! watched under the numbers of all followers. A follower that has stored more reports its position, and checks its
//! number: this completes each write that two of them have.
//!
//! ```sh
//! cargo run --example quorum_write
//! ```
//!
//! Runs in virtual time, and fails if a write is acknowledged too early, too late or not at all.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext};
use actix_timers_purgatory::{Outcome, Purgatory};

const QUORUM: usize = 2;
const TIME_OUT: Duration = Duration::from_secs(1);

/// The position up to which each follower has stored the log.
type Stored = Arc<[AtomicU64; 3]>;

/// An entry at this position of the log.
#[derive(Message)]
#[rtype(result = "()")]
struct Append(u64);

struct Follower {
    number: usize,
    /// The time that it needs, in milliseconds.
    delay: Rc<Cell<u64>>,
    stored: Stored,
    writes: Purgatory<usize>,
}

impl Actor for Follower {
    type Context = Context<Self>;
}

impl Handler<Append> for Follower {
    type Result = ();

    fn handle(&mut self, Append(position): Append, ctx: &mut Self::Context) {
        ctx.run_after(Duration::from_millis(self.delay.get()), move |follower, _| {
            // Every change is followed by a check.
            follower.stored[follower.number].fetch_max(position, Ordering::SeqCst);
            follower.writes.check(&follower.number);
        });
    }
}

/// A write; the reply is its position once a quorum has it.
#[derive(Message)]
#[rtype(result = "Result<u64, String>")]
struct Write;

struct Leader {
    position: u64,
    followers: Vec<Addr<Follower>>,
    stored: Stored,
    writes: Purgatory<usize>,
}

impl Actor for Leader {
    type Context = Context<Self>;
}

impl Handler<Write> for Leader {
    type Result = ResponseFuture<Result<u64, String>>;

    fn handle(&mut self, _: Write, _: &mut Self::Context) -> Self::Result {
        self.position += 1;
        let (position, stored) = (self.position, Arc::clone(&self.stored));
        for follower in &self.followers {
            follower.do_send(Append(position));
        }
        let write = self.writes.wait([0, 1, 2], TIME_OUT, move || {
            let copies = stored.iter().filter(|stored| stored.load(Ordering::SeqCst) >= position).count();
            (copies >= QUORUM).then_some(position)
        });
        Box::pin(async move {
            match write.await {
                Ok(Outcome::Completed(position)) => Ok(position),
                Ok(Outcome::Expired) => Err("too few copies in time".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// Writes, advances the clock by some milliseconds, and returns the replies that are there.
async fn write(leader: &Addr<Leader>, clock: &ManualClock, writes: usize, wait: u64) -> Vec<Result<u64, String>> {
    let requests: Vec<_> = (0..writes).map(|_| actix::spawn(leader.send(Write))).collect();
    clock.advance(Duration::from_millis(wait)).await;
    let mut replies = Vec::new();
    for request in requests.into_iter().filter(|request| request.is_finished()) {
        replies.extend(request.await.into_iter().flatten());
    }
    replies
}

async fn run() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let timers = TimerActor::builder().clock(clock.clone()).install()?;
    let writes: Purgatory<usize> = Purgatory::builder().name("writes").start()?;
    let stored = Stored::default();
    let delays = [20, 50, 800].map(|delay| Rc::new(Cell::new(delay)));
    let follower = |(number, delay): (usize, &Rc<Cell<u64>>)| {
        Follower { number, delay: Rc::clone(delay), stored: Arc::clone(&stored), writes: writes.clone() }.start()
    };
    let followers = delays.iter().enumerate().map(follower).collect();
    let leader = Leader { position: 0, followers, stored: Arc::clone(&stored), writes: writes.clone() }.start();

    assert_eq!(write(&leader, &clock, 1, 49).await, [], "one copy is not enough");
    println!("one copy after 20 ms: the write waits");
    assert_eq!(write(&leader, &clock, 3, 50).await, [Ok(2), Ok(3), Ok(4)]);
    println!("two copies after 50 ms: the writes are acknowledged, without the slow third follower");

    delays[1].set(5_000);
    assert_eq!(write(&leader, &clock, 1, 800).await, [Ok(5)]);
    println!("with the second follower down the third one counts: 800 ms");

    delays[2].set(5_000);
    assert_eq!(write(&leader, &clock, 2, 999).await, []);
    assert_eq!(writes.delayed(), 2);
    assert_eq!(write(&leader, &clock, 1, 1001).await, [Err("too few copies in time".to_owned())]);
    println!("with two followers down writes fail after a second");

    assert_eq!((writes.delayed(), writes.watched()), (0, 0));
    println!("{} entries are under way, and no write waits", timers.snapshot().pending());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(run())
}

#[test]
fn a_write_waits_for_its_quorum_or_its_time_out() {
    main().unwrap_or_else(|error| panic!("{error}"));
}
