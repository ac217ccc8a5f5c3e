//! Deliveries that are tried again, later each time, and what is left when the courier goes home.
//!
//! A courier delivers parcels to houses where not always somebody is at home. What cannot be delivered is tried again after
//! 10 ms, 20 ms, 40 ms and so on, with jitter, so that not all parcels of a street come back at once. After five attempts a
//! parcel is given up. When the courier stops, the timers of parcels still on the way find nobody: they become dead
//! letters, and the depot, which listens to those, gets the parcels back.
//!
//! ```sh
//! cargo run --example retry_with_backoff
//! ```
//!
//! Takes about half a second, counts the parcels, and fails if one is missing.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{DeadLetter, DeadLetterReason, Target, TimerActor, TimerOptions, Timers};

const PARCELS: u32 = 400;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 5;
const HALF_A_DAY: Duration = Duration::from_millis(120);

/// A parcel, and how often somebody has rung the bell for it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
struct Parcel {
    number: u32,
    attempts: u32,
}

/// Where a parcel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Delivered,
    GivenUp,
    BackInTheDepot,
}

struct Courier {
    timers: Timers,
    depot: Addr<Depot>,
}

impl Actor for Courier {
    type Context = Context<Self>;
}

impl Courier {
    /// Who is at home at which attempt: nobody at all in every tenth house.
    const fn is_at_home(parcel: &Parcel) -> bool {
        !parcel.number.is_multiple_of(10) && parcel.attempts > parcel.number % 7
    }
}

impl Handler<Parcel> for Courier {
    type Result = ();

    fn handle(&mut self, mut parcel: Parcel, ctx: &mut Context<Self>) {
        parcel.attempts += 1;
        if Self::is_at_home(&parcel) {
            self.depot.do_send(Ended(parcel, End::Delivered));
        } else if parcel.attempts == ATTEMPTS {
            self.depot.do_send(Ended(parcel, End::GivenUp));
        } else {
            let pause = FIRST_PAUSE * 2u32.pow(parcel.attempts - 1);
            let options = TimerOptions::new().jitter(pause / 2);
            // Not a timer of its own: those end with the actor. This one finds out what became of it.
            let again = Target::from(ctx.address());
            if let Err(refused) = self.timers.timer(again, options).after(pause, parcel) {
                self.depot.do_send(Ended(refused.into_message(), End::BackInTheDepot));
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

#[derive(Message)]
#[rtype(result = "()")]
struct Ended(Parcel, End);

/// How many parcels ended in which way, and how many of those twice.
#[derive(Message)]
#[rtype(result = "CounterHandles")]
struct Count;

type CounterHandles = (BTreeMap<End, usize>, usize);

/// Keeps the counters, and takes back what nobody could deliver.
#[derive(Default)]
struct Depot {
    ends: BTreeMap<u32, End>,
    twice: usize,
}

impl Actor for Depot {
    type Context = Context<Self>;
}

impl Handler<Ended> for Depot {
    type Result = ();

    fn handle(&mut self, Ended(parcel, end): Ended, _: &mut Context<Self>) {
        self.twice += usize::from(self.ends.insert(parcel.number, end).is_some());
    }
}

impl Handler<DeadLetter> for Depot {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, ctx: &mut Context<Self>) {
        if let (DeadLetterReason::RecipientStopped, Some(parcel)) = (letter.reason, letter.take::<Parcel>()) {
            self.handle(Ended(parcel, End::BackInTheDepot), ctx);
        }
    }
}

impl Handler<Count> for Depot {
    type Result = MessageResult<Count>;

    fn handle(&mut self, _: Count, _: &mut Context<Self>) -> Self::Result {
        let mut counts = BTreeMap::new();
        self.ends.values().for_each(|end| *counts.entry(*end).or_insert(0) += 1);
        MessageResult((counts, self.twice))
    }
}

fn main() -> ExitCode {
    let outcome = System::new().block_on(async {
        let timers = TimerActor::builder().name("parcels").start().map_err(|error| error.to_string())?;
        let depot = Depot::default().start();
        timers.subscribe_dead_letters(depot.clone());
        let courier = Courier { timers: timers.clone(), depot: depot.clone() }.start();
        for parcels in [0..PARCELS / 2, PARCELS / 2..PARCELS] {
            parcels.for_each(|number| courier.do_send(Parcel { number, attempts: 0 }));
            actix::clock::sleep(HALF_A_DAY).await;
        }
        courier.send(Stop).await.map_err(|error| error.to_string())?;
        // The last letters may still be on their way when the last timer has ended.
        let mut looks_left = 1000;
        let (counts, twice) = loop {
            let (counts, twice) = depot.send(Count).await.map_err(|error| error.to_string())?;
            looks_left -= 1;
            if counts.values().sum::<usize>() == PARCELS as usize || looks_left == 0 {
                break (counts, twice);
            }
            actix::clock::sleep(FIRST_PAUSE).await;
        };
        println!("{PARCELS} parcels: {counts:?}");
        match (counts.values().sum::<usize>(), twice) {
            (all, 0) if all == PARCELS as usize => Ok(()),
            (ended, twice) => Err(format!("{ended} of {PARCELS} parcels have ended, {twice} of them twice")),
        }
    });
    match outcome {
        Ok(()) => {
            println!("every parcel was delivered, given up, or is back in the depot");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
