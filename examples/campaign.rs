//! A marketing campaign: an offer to every customer at nine o'clock, spread over ten minutes.
//!
//! All offers go to the timer actor in one batch, with one group and one jitter. Nine o'clock is a wall-clock time, so
//! they follow the wall clock. A second campaign, for ten o'clock, is cancelled at a quarter past nine by one request.
//! Customers that unsubscribed meanwhile have stopped; their offers become dead letters.
//!
//! ```sh
//! cargo run --release --example campaign
//! ```
//!
//! Runs in virtual time, and fails on a wrong, doubled or badly timed offer, or if the offers came in a crowd.

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{CancelGroup, ManualClock, ScheduleBatch, TimerActor, TimerFilter, TimerOptions};

const CUSTOMERS: usize = 10_000;
const UNSUBSCRIBED: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const SPREAD: Duration = Duration::from_secs(600);

#[derive(Message)]
#[rtype(result = "()")]
struct Offer {
    campaign: &'static str,
}

struct Customer {
    number: usize,
    clock: ManualClock,
    /// Gets the offers: customer, campaign and time.
    received: mpsc::Sender<(usize, &'static str, SystemTime)>,
}

impl Actor for Customer {
    type Context = Context<Self>;
}

impl Handler<Offer> for Customer {
    type Result = ();

    fn handle(&mut self, offer: Offer, _: &mut Self::Context) {
        let _ = self.received.send((self.number, offer.campaign, self.clock.wall()));
    }
}

/// Returns a batch with one offer per customer, all for the same time with jitter.
fn campaign(name: &'static str, at: SystemTime, customers: &[Addr<Customer>]) -> ScheduleBatch<Offer> {
    let mut batch = ScheduleBatch::with_capacity(customers.len());
    batch.options(TimerOptions::new().group(name).jitter(SPREAD));
    for customer in customers {
        batch.at(customer, at, Offer { campaign: name });
    }
    batch
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let midnight = SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400);
        let (eight, nine, ten) = (midnight + 8 * HOUR, midnight + 9 * HOUR, midnight + 10 * HOUR);
        let clock = ManualClock::starting_at(eight);
        let timers = TimerActor::builder().name("campaigns").clock(clock.clone()).start()?;
        let (receive, received) = mpsc::channel();
        let customer = |number| Customer { number, clock: clock.clone(), received: receive.clone() }.start();
        let mut customers: Vec<Addr<Customer>> = (0..CUSTOMERS).map(customer).collect();

        for (name, at) in [("autumn sale", nine), ("last chance", ten)] {
            let answers = timers.addr().send(campaign(name, at, &customers)).await?;
            if let Some(rejected) = answers.into_iter().find_map(Result::err) {
                return Err(rejected.to_string().into());
            }
        }
        let of_sale = TimerFilter::new().group("autumn sale");
        println!("08:00  {} offers wait for 09:00 to 09:10", timers.list(&of_sale).len());

        clock.advance(HOUR / 2).await;
        customers.truncate(CUSTOMERS - UNSUBSCRIBED);
        clock.advance(HOUR / 2).await;
        for minute in 1..=10 {
            clock.advance(MINUTE).await;
            let left = timers.list(&of_sale);
            let next = left.first().map_or("none is left".to_owned(), |info| format!("next in {:?}", info.remaining));
            println!("09:{minute:02}  {} to go, {next}", left.len());
        }
        clock.advance(5 * MINUTE).await;
        let called_off = timers.addr().send(CancelGroup::new("last chance")).await?;
        println!("09:15  {called_off} offers of the other campaign called off");
        clock.advance(HOUR).await;

        let mut received: Vec<_> = received.try_iter().collect();
        let counters = timers.snapshot().counters;
        check(counters.balance() && counters.pending == 0, "every offer is accounted for")?;
        check(called_off == CUSTOMERS, "the second campaign was called off as a whole")?;
        check(counters.recipient_stopped == UNSUBSCRIBED as u64, "unsubscribed customers get nothing")?;
        check(received.iter().all(|(_, campaign, _)| *campaign == "autumn sale"), "nobody got the other offer")?;
        let in_time = |at: &SystemTime| (nine..=nine + SPREAD).contains(at);
        check(received.iter().all(|(_, _, at)| in_time(at)), "all came between nine and ten past nine")?;
        for minute in 0..10 {
            let from = nine + minute * MINUTE;
            let came = received.iter().filter(|(_, _, at)| (from..from + MINUTE).contains(at)).count();
            check((800..1200).contains(&came), "each minute had about a tenth of the offers")?;
        }
        received.sort_unstable();
        let numbers: Vec<usize> = received.iter().map(|(number, _, _)| *number).collect();
        check(numbers == (0..CUSTOMERS - UNSUBSCRIBED).collect::<Vec<_>>(), "every customer got one offer")?;
        println!("{} offers, one for each customer", received.len());
        Ok(())
    })
}

fn check(holds: bool, what: &str) -> Result<(), Box<dyn Error>> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}").into()) }
}
