//! A month of readings in virtual time, and the cost of each: the price of a dense simulation.
//!
//! A sensor takes 43 200 readings, one every minute or every so many milliseconds, and calibrates itself an hour after
//! each thousandth. Each reading is taken at its own time on the manual clock. With 10 ms the clock moves once per
//! reading; with a minute about four times, for cascades of the wheel and for the metrics as well.
//!
//! ```sh
//! cargo run --example simulated_month [MILLISECONDS]
//! ```
//!
//! Fails if a reading is missing, or at another time.

use std::error::Error;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext};

/// A month of minutes.
const READINGS: u32 = 30 * 24 * 60;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Read;

#[derive(Message)]
#[rtype(result = "()")]
struct Calibrate;

/// Requests the number of readings and of calibrations.
#[derive(Message)]
#[rtype(result = "(u32, u32)")]
struct Taken;

struct Sensor {
    clock: ManualClock,
    period: Duration,
    readings: u32,
    calibrations: u32,
}

impl Actor for Sensor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.schedule_at_fixed_rate(self.period, Read);
    }
}

impl Handler<Read> for Sensor {
    type Result = ();

    fn handle(&mut self, _: Read, ctx: &mut Self::Context) {
        self.readings += 1;
        assert_eq!(self.clock.now(), self.period * self.readings, "a reading at its own time");
        if self.readings.is_multiple_of(1000) {
            ctx.schedule_after(HOUR, Calibrate);
        }
    }
}

impl Handler<Calibrate> for Sensor {
    type Result = ();

    fn handle(&mut self, _: Calibrate, _: &mut Self::Context) {
        self.calibrations += 1;
    }
}

impl Handler<Taken> for Sensor {
    type Result = MessageResult<Taken>;

    fn handle(&mut self, _: Taken, _: &mut Self::Context) -> Self::Result {
        MessageResult((self.readings, self.calibrations))
    }
}

#[actix::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let millis = std::env::args().nth(1).map_or(Ok(60_000), |period| period.parse())?;
    let period = Duration::from_millis(millis);
    let clock = ManualClock::new();
    TimerActor::builder().clock(clock.clone()).install()?;
    let sensor = Sensor { clock: clock.clone(), period, readings: 0, calibrations: 0 }.start();

    let began = Instant::now();
    clock.advance(period * READINGS).await;
    let took = began.elapsed();

    let (readings, calibrations) = sensor.send(Taken).await?;
    assert_eq!(readings, READINGS);
    let due = (1..=READINGS / 1000).filter(|thousand| period * (thousand * 1000) + HOUR <= period * READINGS);
    assert_eq!(calibrations as usize, due.count());
    println!("{readings} readings in {took:.1?}: {:.1?} each", took / readings);
    Ok(())
}
