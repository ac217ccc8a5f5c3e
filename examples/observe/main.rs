//! An endless load with metrics for Prometheus.
//!
//! ```sh
//! cargo run --release --features web --example observe
//! ```
//!
//! A shop sends a request per order to another service, with a timeout that the reply mostly cancels; unanswered
//! requests are retried later, and reminders are set for minutes, hours and days ahead. With `--incident` an incident
//! follows each minute of normal load. `dashboards/README.md` describes the connection to a Prometheus. Built with
//! `--features inspector` it also serves the inspector, at `/timers`. Ctrl-C ends it.
//!
//! With `--features web,durable` and `--store DIR` it also has durable timers. Killed and started again with the same
//! directory, it continues with them. With `--features web,postgres` and `--store postgres://...` several processes share
//! them; when one is killed, the others go on with its part.
//!
//! Reading order: `shop` and `clerk`, the actors; `polls`, requests that wait; `post`, the durable timers; `incident`; `page` and `snapshot`, the
//! HTTP endpoints; `args`, the command line.

mod args;
mod clerk;
mod incident;
mod page;
mod polls;
#[cfg(feature = "durable")]
mod post;
mod shop;
mod snapshot;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Mutex;

use actix::prelude::*;
use actix_timers::TimerActor;
use actix_web::{App, HttpServer, web};
use clap::Parser;

use crate::args::Options;
use crate::incident::Scene;
use crate::page::Pages;
use crate::polls::Polls;
use crate::shop::Shop;

/// The capacity: room for some hours of the load, but not for a minute of the incident `overload`.
const CAPACITY: usize = 250_000;
/// The seconds that a request in flight at the end may still take.
const GRACE: u64 = 1;

fn main() -> ExitCode {
    match System::new().block_on(run(Options::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("observe: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // The timer actor takes the recorder that it finds, so the recorder comes first.
    let recorder = page::install_recorder()?;
    let timers = TimerActor::builder().name("shop").capacity(CAPACITY).start()?;
    #[cfg(feature = "durable")]
    let post = post::Post::open(options.store.as_deref(), &options.address).await?;
    let pages = Pages { recorder: recorder.clone(), timers: timers.clone(), counted: Mutex::default() };
    let pages = web::Data::new(pages);
    #[cfg(feature = "inspector")]
    let inspector = actix_timers_inspector::Inspector::new(&timers);
    let routes = move || {
        let app = App::new().app_data(pages.clone());
        #[cfg(feature = "inspector")]
        let app = app.service(inspector.scope("/timers"));
        app.route("/metrics", web::get().to(page::metrics)).route("/snapshot", web::get().to(page::counted))
    };
    let server = HttpServer::new(routes)
        .workers(1)
        .shutdown_timeout(GRACE)
        .bind(&options.address)
        .map_err(|wrong| format!("cannot listen at {}: {wrong}; say another address", options.address))?;
    for bound in server.addrs() {
        println!("metrics at http://{bound}/metrics; Ctrl-C ends this");
        #[cfg(feature = "inspector")]
        println!("inspector at http://{bound}/timers");
    }

    actix_web::rt::spawn(page::keep_up(recorder));
    let shop = Shop::open(&timers);
    let _polls = Polls::open(&timers)?;
    if let Some(incident) = options.incident {
        println!("incident: {incident:?}, after each minute of calm");
        let scene = Scene {
            timers: timers.clone(),
            shop: shop.clone(),
            #[cfg(feature = "durable")]
            letters: post.timers(),
        };
        actix_web::rt::spawn(incident.again_and_again(scene));
    }

    server.run().await?;
    drop(shop);
    #[cfg(feature = "durable")]
    post.close().await?;
    println!("{} timers come back unfinished", timers.drain().len());
    Ok(())
}
