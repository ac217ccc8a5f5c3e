//! Retries with exponential backoff, and the undelivered messages of a stopped actor.
//!
//! A courier delivers parcels to houses where sometimes nobody is at home. A failed delivery is retried after 10 ms, 20
//! ms, 40 ms and so on, with jitter, so that the parcels of a street do not all come back at once. After five attempts
//! a parcel is given up. When the courier stops, the timers of its parcels become dead letters; the depot subscribes to
//! them and gets the parcels back.
//!
//! ```sh
//! cargo run --example retry_with_backoff
//! ```
//!
//! Takes about half a second, counts the parcels, and fails if one is missing.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{DeadLetter, DeadLetterReason, Target, TimerActor, TimerOptions, Timers, impl_due_timers};
use tokio::sync::mpsc;

const PARCELS: u32 = 400;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 5;
const HALF_A_DAY: Duration = Duration::from_millis(120);

/// A parcel, with its number of delivery attempts.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
struct Parcel {
    number: u32,
    attempts: u32,
}

/// The end of a parcel.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Delivered,
    GivenUp,
    BackInTheDepot,
}

/// Gets each parcel with its end.
type Ends = mpsc::UnboundedSender<(u32, End)>;

struct Courier {
    timers: Timers,
    ends: Ends,
}

impl Actor for Courier {
    type Context = Context<Self>;
}

impl_due_timers!(Courier);

impl Courier {
    /// Returns whether the attempt succeeds: never in every tenth house.
    const fn is_at_home(parcel: &Parcel) -> bool {
        !parcel.number.is_multiple_of(10) && parcel.attempts > parcel.number % 7
    }
}

impl Handler<Parcel> for Courier {
    type Result = ();

    fn handle(&mut self, mut parcel: Parcel, ctx: &mut Context<Self>) {
        parcel.attempts += 1;
        if Self::is_at_home(&parcel) {
            let _ = self.ends.send((parcel.number, End::Delivered));
        } else if parcel.attempts == ATTEMPTS {
            let _ = self.ends.send((parcel.number, End::GivenUp));
        } else {
            let pause = FIRST_PAUSE * 2u32.pow(parcel.attempts - 1);
            let options = TimerOptions::new().jitter(pause / 2);
            // A timer of the courier itself would end with it; this one becomes a dead letter. Tracked: a due parcel stays with
            // the timer actor until the courier takes it.
            let again = Target::tracked(&ctx.address());
            if let Err(rejected) = self.timers.timer(again, options).try_schedule(pause, parcel) {
                let _ = self.ends.send((rejected.into_message().number, End::BackInTheDepot));
            }
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

impl Handler<Stop> for Courier {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

/// The actor that takes back undeliverable parcels.
struct Depot(Ends);

impl Actor for Depot {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Depot {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, _: &mut Context<Self>) {
        if letter.reason == DeadLetterReason::RecipientStopped
            && let Some(parcel) = letter.take::<Parcel>()
        {
            let _ = self.0.send((parcel.number, End::BackInTheDepot));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let timers = TimerActor::builder().name("parcels").start()?;
        let (end, mut ended) = mpsc::unbounded_channel();
        let depot = Depot(end.clone()).start();
        timers.subscribe_dead_letters(depot.clone());
        let courier = Courier { timers: timers.clone(), ends: end }.start();
        for parcels in [0..PARCELS / 2, PARCELS / 2..PARCELS] {
            parcels.for_each(|number| courier.do_send(Parcel { number, attempts: 0 }));
            actix::clock::sleep(HALF_A_DAY).await;
        }
        courier.send(Stop).await?;
        let mut ends = BTreeMap::new();
        while ends.len() < PARCELS as usize {
            let end = actix::clock::timeout(Duration::from_secs(10), ended.recv()).await?;
            let (number, end) = end.ok_or("nobody is left")?;
            if ends.insert(number, end).is_some() {
                return Err(format!("parcel {number} has ended twice").into());
            }
        }
        for end in [End::Delivered, End::GivenUp, End::BackInTheDepot] {
            println!("{end:?}: {} parcels", ends.values().filter(|known| **known == end).count());
        }
        Ok(())
    })
}
