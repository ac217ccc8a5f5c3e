//! The watchdog helps a busy arbiter without changing the order of deadlines.
//!
//! The clock is real: under another one the watchdog does nothing. Slow code sleeps for longer than the watchdog's
//! patience, so that a wrong order shows. The right order does not depend on timing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, Timers};
use support::{eventually, ms};

/// Four times the watchdog's wait before it intervenes.
const LONG: Duration = ms(80);

#[derive(Message)]
#[rtype(result = "()")]
struct Number {
    number: u32,
    /// Keeps the thread busy when it is dropped.
    is_slow: bool,
}

impl Drop for Number {
    fn drop(&mut self) {
        if self.is_slow {
            // Long enough for the watchdog to intervene.
            std::thread::sleep(LONG);
        }
    }
}

type Log = Arc<Mutex<Vec<u32>>>;

struct Listener(Log);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<Number> for Listener {
    type Result = ();

    fn handle(&mut self, number: Number, _: &mut Self::Context) {
        self.0.lock().unwrap().push(number.number);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Plan(Job);

type Job = Box<dyn FnOnce(&mut Context<Listener>) + Send>;

impl Handler<Plan> for Listener {
    type Result = ();

    fn handle(&mut self, Plan(plan): Plan, ctx: &mut Self::Context) {
        plan(ctx);
    }
}

fn number(number: u32) -> Number {
    Number { number, is_slow: false }
}

/// The driver has two messages ready for sending, and the first keeps it from sending the second. A third one for the
/// same actor is due meanwhile.
#[test]
fn the_watchdog_does_not_overtake_messages_of_the_driver() {
    support::in_real_time(async {
        for _ in 0..3 {
            let log = Log::default();
            let listener = Listener(Arc::clone(&log)).start();
            let dead = Listener(Log::default()).start();
            let nobody = Target::from(&dead);
            drop(dead);
            eventually(|| !nobody.is_alive()).await;
            let plan = move |ctx: &mut Context<Listener>| {
                let timers = Timers::current().unwrap();
                timers.schedule_after(nobody, ms(0), Number { number: 0, is_slow: true });
                timers.schedule_after(ctx.address(), ms(0), number(1));
                timers.schedule_after(ctx.address(), LONG / 2, number(2));
            };
            listener.send(Plan(Box::new(plan))).await.unwrap();
            eventually(|| log.lock().unwrap().len() == 2).await;
            assert_eq!(*log.lock().unwrap(), [1, 2]);
        }
    });
}
