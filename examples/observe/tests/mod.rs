//! The example `observe`: its arguments, and the effect of each incident.
#![allow(clippy::unwrap_used)]

mod agree;

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerActor, Timers};
use clap::{Parser, ValueEnum};

use crate::args::Options;
use crate::incident::{Incident, Scene};
#[cfg(feature = "durable")]
use crate::post;
use crate::shop::Shop;

fn parse(arguments: &[&str]) -> Result<Options, String> {
    Options::try_parse_from([&["observe"], arguments].concat()).map_err(|wrong| wrong.to_string())
}

#[test]
fn it_serves_where_it_is_told_to() {
    let run = |address: &str, incident| Ok(Options { address: address.to_owned(), incident, store: None });
    assert_eq!(parse(&[]), run("127.0.0.1:9464", None));
    assert_eq!(parse(&["--incident", "burst", "[::1]:0"]), run("[::1]:0", Some(Incident::Burst)));
    for wrong in [&["--incident", "none"][..], &["--incident"], &["--store"], &["-x"], &["one", "two"]] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn durable_timers_need_a_place_and_the_feature() {
    for (place, feature, is_here) in [
        ("letters", "durable", cfg!(feature = "durable")),
        ("postgres://shop@db/shop", "postgres", cfg!(feature = "postgres")),
        ("postgresql://shop@db/shop", "postgres", cfg!(feature = "postgres")),
    ] {
        match parse(&["--store", place]) {
            Ok(options) => assert!(is_here && options.store.as_deref() == Some(place.as_ref()), "{options:?}"),
            Err(wrong) => assert!(!is_here && wrong.contains(&format!("--features web,{feature}")), "{wrong}"),
        }
    }
}

#[test]
fn every_incident_is_offered_and_explained() {
    let readme = include_str!("../../../dashboards/README.md");
    for incident in Incident::value_variants().iter().filter_map(Incident::to_possible_value) {
        assert!(incident.get_help().is_some());
        assert!(readme.contains(&format!("\n| `{}` |", incident.get_name())), "{incident:?}");
        let alone = parse(&["--incident", incident.get_name()]);
        assert_eq!(alone.is_err(), incident.get_name() == "wrong-address", "{incident:?}");
    }
}

const WHILE: Duration = Duration::from_secs(2);

/// Calls `check` when the incident has lasted two seconds, in virtual time.
fn during(incident: Incident, capacity: usize, check: impl FnOnce(&Timers)) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    System::with_tokio_rt(runtime).block_on(async {
        let timers = TimerActor::builder().capacity(capacity).start().unwrap();
        let shop = Shop::open(&timers);
        tokio::time::sleep(WHILE).await;
        let calm = timers.snapshot().counters;
        assert_eq!((calm.dead_lettered(), calm.rejected_capacity), (0, 0), "{incident:?}: no failures before it");
        let scene = Scene {
            timers: timers.clone(),
            shop,
            #[cfg(feature = "durable")]
            letters: None,
        };
        let _ = tokio::time::timeout(WHILE, incident.happen(&scene)).await;
        check(&timers);
    });
}

#[test]
fn a_stuck_recipient_delays_some_messages_and_drops_others() {
    during(Incident::StuckRecipient, 100_000, |timers| {
        let seen = timers.snapshot();
        assert!(seen.counters.window_full > 0);
        let in_buckets: usize = seen.wheel.levels.iter().map(|level| level.stats.entries).sum();
        assert!(seen.pending() > in_buckets as u64 + 100, "they are due, and wait");
    });
}

#[test]
fn a_stopped_recipient_leaves_dead_letters() {
    during(Incident::StoppedRecipient, 100_000, |timers| assert!(timers.snapshot().counters.recipient_stopped > 0));
}

#[test]
fn a_burst_fills_one_bucket() {
    during(Incident::Burst, 250_000, |timers| {
        let fullest = timers.snapshot().wheel.levels.iter().map(|level| level.stats.fullest).max();
        assert!(fullest > Some(50_000), "{fullest:?}");
    });
}

#[test]
fn an_overload_is_rejected() {
    during(Incident::Overload, 20_000, |timers| assert!(timers.snapshot().counters.rejected_capacity > 0));
}

/// Runs a minute of letters in virtual time, and then the incident.
#[cfg(feature = "durable")]
#[test]
fn only_wrong_addresses_make_dead_letters() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    System::with_tokio_rt(runtime).block_on(async {
        let letters = post::start(actix_timers_durable::MemoryStore::new()).unwrap();
        let writing = actix::spawn(post::write(letters.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        writing.abort();
        let counts = letters.counts().await.unwrap();
        assert!(counts.pending > 2_000 && counts.pending < 4_500, "waiting letters: {counts:?}");
        assert_eq!((counts.dead, counts.parked), (0, 0), "no failures before it");

        let timers = TimerActor::builder().start().unwrap();
        let scene = Scene { shop: Shop::open(&timers), timers, letters: Some(letters.clone()) };
        let _ = tokio::time::timeout(Duration::from_secs(5), Incident::WrongAddress.happen(&scene)).await;
        let counts = letters.counts().await.unwrap();
        assert!(counts.dead > 5 && counts.parked == 0, "{counts:?}");
        letters.stop().await.unwrap();
    });
}
