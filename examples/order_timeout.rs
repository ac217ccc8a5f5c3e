//! Orders that are cancelled if they are not paid in time.
//!
//! The warehouse reserves goods for an order and releases them when the time to pay is over. Payments come in on
//! another thread, many of them at that very moment. An order must be either paid or released, never both and never
//! neither. This takes an exact cancel of a message to another actor: tracked delivery. The outcome of the cancel
//! decides about the payment.
//!
//! ```sh
//! cargo run --example order_timeout
//! ```
//!
//! Takes about a second, counts the outcomes of all orders, and fails if one was treated wrongly.

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{CancelOutcome, Target, TimerActor, TimerId, TimerOptions, Timers, impl_due_timers};

const ORDERS: u32 = 2000;
/// Orders placed together.
const GROUP: u32 = 40;
const TIME_TO_PAY: Duration = Duration::from_millis(50);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The time-out of an order's payment.
#[derive(Message)]
#[rtype(result = "()")]
struct Release(u32);

/// The actor that holds the goods of orders. It tells which ones it has released.
struct Warehouse(mpsc::Sender<u32>);

impl Actor for Warehouse {
    type Context = Context<Self>;
}

impl Handler<Release> for Warehouse {
    type Result = ();

    fn handle(&mut self, Release(order): Release, _: &mut Self::Context) {
        let _ = self.0.send(order);
    }
}

// This line makes cancels exact: messages stay in the timer actor until they are handled.
impl_due_timers!(Warehouse);

/// The payments by their outcome.
#[derive(Debug, Default)]
struct Payments {
    accepted: Vec<u32>,
    refunded: Vec<u32>,
}

/// An order as the cashier knows it.
struct Order {
    number: u32,
    placed: Instant,
    timer: TimerId,
}

/// Takes payments for orders as they come in: four of five orders are paid, at times spread around the deadline.
fn cashier(timers: &Timers, orders: &mpsc::Receiver<Order>) -> Payments {
    let mut payments = Payments::default();
    for Order { number: order, placed, timer } in orders {
        if order % 5 == 0 {
            continue;
        }
        // From 2 ms before the deadline to 2 ms after it.
        let pays_at = placed + TIME_TO_PAY - ms(2) + ms(4) * (order % GROUP) / GROUP;
        std::thread::sleep(pays_at.saturating_duration_since(Instant::now()));
        match timers.cancel(timer) {
            // The outcome promises that the goods will not be released.
            CancelOutcome::Cancelled => payments.accepted.push(order),
            // The goods have been released, or are being released.
            CancelOutcome::AlreadyDelivered | CancelOutcome::InProgress | CancelOutcome::NotFound => {
                payments.refunded.push(order);
            }
        }
    }
    payments
}

/// Returns an error for the first order that is paid and released, or neither.
fn check(released: &[u32], payments: &Payments) -> Result<(), String> {
    for order in 0..ORDERS {
        let is_released = released.iter().filter(|known| **known == order).count();
        let is_paid = payments.accepted.iter().filter(|known| **known == order).count();
        if is_released + is_paid != 1 {
            return Err(format!("order {order} was paid {is_paid} times and released {is_released} times"));
        }
    }
    match payments.refunded.iter().find(|order| !released.contains(order)) {
        Some(order) => Err(format!("the payment for order {order} was refunded, but the goods were kept")),
        None => Ok(()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let timers = TimerActor::builder().name("orders").start()?;
        let arbiter = Arbiter::new();
        let (release, all_released) = mpsc::channel();
        let warehouse = Warehouse::start_in_arbiter(&arbiter.handle(), |_| Warehouse(release));
        // One target for all orders; at most 16 releases at a time, however many are due.
        let target = Target::tracked(&warehouse).window(16);

        let (place, orders) = mpsc::channel();
        let desk = timers.clone();
        let cashier = std::thread::spawn(move || cashier(&desk, &orders));
        for number in 0..ORDERS {
            let placed = Instant::now();
            let timer = timers
                .timer(&target, TimerOptions::new())
                .try_schedule(TIME_TO_PAY, Release(number))
                .map_err(|error| format!("order {number} was not taken: {error}"))?;
            place.send(Order { number, placed, timer })?;
            if number % GROUP == GROUP - 1 {
                actix::clock::sleep(ms(8)).await;
            }
        }
        drop(place);
        while timers.snapshot().pending() > 0 {
            actix::clock::sleep(TIME_TO_PAY / 10).await;
        }
        let payments = cashier.join().map_err(|_| "the cashier has panicked")?;
        arbiter.stop();
        let _ = arbiter.join();
        let released: Vec<u32> = all_released.try_iter().collect();
        println!(
            "{ORDERS} orders: {} paid, {} released, {} of them with a payment that came too late",
            payments.accepted.len(),
            released.len(),
            payments.refunded.len()
        );
        check(&released, &payments)?;
        println!("no order was both paid and released, and none was forgotten");
        Ok(())
    })
}
