//! Something to look at: an endless load, and its metrics for Prometheus.
//!
//! ```sh
//! cargo run --release --example observe -- 127.0.0.1:9464
//! ```
//!
//! A shop asks another service for each order, with a timeout that mostly is cancelled by the answer; what was not answered
//! is tried again later, and reminders are set for minutes, hours and days ahead. `dashboards/README.md` tells how to point
//! a Prometheus at it. Ctrl-C ends it.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerId, TimerOptions, Timers};
use actix_web::{App, HttpResponse, HttpServer, Responder, web};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const ADDRESS: &str = "127.0.0.1:9464";
/// The shop opens orders in small lots.
const LOT_EVERY: Duration = Duration::from_millis(20);
const ORDERS_IN_A_LOT: u64 = 40;
/// One order in so many is not answered in time.
const UNANSWERED: u64 = 50;
const TIMEOUT: Duration = Duration::from_secs(2);
const REMINDERS: [Duration; 4] = [
    Duration::from_secs(20),
    Duration::from_secs(10 * 60),
    Duration::from_secs(6 * 3600),
    Duration::from_secs(7 * 24 * 3600),
];

/// Some answer has come for the order whose timeout this is.
#[derive(Message)]
#[rtype(result = "()")]
struct Answer {
    timeout: Option<TimerId>,
}

#[derive(Message)]
#[rtype(result = "()")]
struct NotAnswered {
    attempt: u32,
}

#[derive(Message)]
#[rtype(result = "()")]
struct TryAgain {
    attempt: u32,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Remind;

struct Shop {
    timers: Timers,
    orders: u64,
    reminded: u64,
}

impl Shop {
    /// Asks for an answer, and sets a timeout in case that none comes. A refusal shows in the metrics.
    fn ask(&mut self, attempt: u32, ctx: &mut Context<Self>) {
        let me = ctx.address();
        let timeout = self.timers.schedule_after(&me, TIMEOUT, NotAnswered { attempt }).ok();
        self.orders += 1;
        if !self.orders.is_multiple_of(UNANSWERED) {
            let soon = TimerOptions::new().jitter(Duration::from_millis(300));
            let _ = self.timers.timer(&me, soon).after(Duration::from_millis(5), Answer { timeout });
        }
    }

    fn remind(&self, customer: impl Into<Target<Remind>>) {
        let ahead = REMINDERS[self.orders as usize / 3 % REMINDERS.len()];
        let _ = self.timers.timer(customer, TimerOptions::new().jitter(ahead)).after(ahead, Remind);
    }
}

impl Actor for Shop {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(LOT_EVERY, |shop, ctx| {
            (0..ORDERS_IN_A_LOT).for_each(|_| shop.ask(0, ctx));
            (0..ORDERS_IN_A_LOT / 10).for_each(|_| shop.remind(ctx.address()));
        });
    }
}

impl Handler<Answer> for Shop {
    type Result = ();

    fn handle(&mut self, answer: Answer, _: &mut Context<Self>) {
        if let Some(timeout) = answer.timeout {
            // Too late if it was due already.
            let _ = self.timers.cancel(timeout);
        }
    }
}

impl Handler<NotAnswered> for Shop {
    type Result = ();

    fn handle(&mut self, NotAnswered { attempt }: NotAnswered, ctx: &mut Context<Self>) {
        let pause = Duration::from_millis(500 << attempt.min(6));
        let options = TimerOptions::new().jitter(pause / 2);
        let again = TryAgain { attempt: attempt + 1 };
        let _ = self.timers.timer(ctx.address(), options).after(pause, again);
    }
}

impl Handler<TryAgain> for Shop {
    type Result = ();

    fn handle(&mut self, TryAgain { attempt }: TryAgain, ctx: &mut Context<Self>) {
        self.ask(attempt, ctx);
    }
}

impl Handler<Remind> for Shop {
    type Result = ();

    fn handle(&mut self, _: Remind, _: &mut Context<Self>) {
        self.reminded += 1;
    }
}

/// Books that balance, and gauges of now.
async fn scrape(recorder: web::Data<PrometheusHandle>) -> impl Responder {
    let page = actix_timers::scrape(|| recorder.render());
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(page)
}

/// A histogram keeps every sample until this.
async fn keep_up(recorder: PrometheusHandle) {
    loop {
        actix_web::rt::time::sleep(Duration::from_secs(5)).await;
        recorder.run_upkeep();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| ADDRESS.to_owned());
    System::new().block_on(run(&address))
}

async fn run(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let recorder = builder.install_recorder()?;
    actix_web::rt::spawn(keep_up(recorder.clone()));
    let timers = TimerActor::builder().name("shop").capacity(1_000_000).start()?;
    let shop = Shop { timers: timers.clone(), orders: 0, reminded: 0 }.start();

    let data = web::Data::new(recorder);
    let server = HttpServer::new(move || App::new().app_data(data.clone()).route("/metrics", web::get().to(scrape)))
        .workers(1)
        .bind(address)
        .map_err(|wrong| format!("{address}: {wrong}"))?;
    for bound in server.addrs() {
        println!("metrics at http://{bound}/metrics; Ctrl-C ends this");
    }
    server.run().await?;
    drop(shop);
    println!("{} timers come back unfinished", timers.drain().len());
    Ok(())
}
