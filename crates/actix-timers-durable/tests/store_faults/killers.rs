//! A service in a process of its own, some of whose messages end it: they become dead letters, and no others.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use actix::prelude::*;
use actix_timers_durable::{
    Durable, DurableFilter, DurableMessage, DurableState, DurableTimers, EmbeddedStore, HandlerError, RetryPolicy,
    RouteOptions,
};
use serde::{Deserialize, Serialize};

use crate::talking::Talking;
use crate::workshop;

const STORE: &str = "ACTIX_TIMERS_KILLERS_STORE";
const ROUTE: &str = "work";
const JOBS: u32 = 60;
const KILLERS: [u32; 3] = [5, 23, 24];
const ATTEMPTS: u32 = 2;
/// The job that ends its process at first, and later only its system, in the middle of its work.
const LONG: u32 = 1000;
const ENDS: &str = "ACTIX_TIMERS_KILLERS_ENDS";

#[derive(Serialize, Deserialize)]
struct Job(u32);

impl DurableMessage for Job {
    const NAME: &'static str = "job";
}

struct Worker;

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Durable<Job>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, job: Durable<Job>, _: &mut Context<Self>) -> Self::Result {
        let number = job.0;
        Box::pin(async move {
            // Others are with their handlers by now.
            tokio::task::yield_now().await;
            if KILLERS.contains(&number) {
                std::process::abort();
            }
            if number == LONG {
                if std::env::var(ENDS).is_err() {
                    std::process::abort();
                }
                eprintln!("long");
                System::current().stop();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

async fn serve(path: &Path) {
    let options = RouteOptions::new().retry(RetryPolicy::default().max_attempts(ATTEMPTS));
    let builder = DurableTimers::builder(EmbeddedStore::open(path).unwrap());
    let seeded = path.with_extension("seeded");
    if !seeded.exists() {
        // Nothing is delivered before the next process.
        let timers = builder.open_route_with::<Job>(ROUTE, options).start().unwrap();
        for number in 0..JOBS {
            let _ = timers.schedule_after(ROUTE, Duration::ZERO, Job(number)).await.unwrap();
        }
        timers.stop().await.unwrap();
        return std::fs::write(seeded, "").unwrap();
    }
    let timers = builder.route_with::<Job>(ROUTE, Worker.start(), options).start().unwrap();
    while timers.counts().await.unwrap().pending > 0 {
        // Polls again; nothing depends on how soon.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for info in timers.list(DurableFilter::dead().limit(1000)).await.unwrap().timers {
        let DurableState::Dead { reason, .. } = &info.state else { panic!("it is dead") };
        eprintln!("dead {} {reason}", info.message::<Job>().unwrap().0);
    }
    timers.stop().await.unwrap();
    eprintln!("finished");
}

/// The process of the service. Does nothing in an ordinary run.
#[test]
fn in_the_process_of_the_service() {
    let Ok(path) = std::env::var(STORE) else { return };
    support::in_real_time(serve(Path::new(&path)));
    std::process::exit(0);
}

fn process(path: &Path) -> Command {
    process_of("killers::in_the_process_of_the_service", path)
}

fn process_of(test: &str, path: &Path) -> Command {
    let mut child = workshop::process_of(test);
    child.env(STORE, path);
    child
}

#[test]
fn messages_that_abort_their_process_become_dead_letters() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let most = 1 + ATTEMPTS as usize * KILLERS.len() + KILLERS.len();
    for process_number in 0.. {
        assert!(process_number <= most, "each crash must make progress");
        let said = Talking::start(process(&path)).rest();
        if said.iter().any(|line| line == "finished") {
            let mut dead: Vec<u32> = said
                .iter()
                .filter_map(|line| line.strip_prefix("dead "))
                .map(|line| {
                    assert!(line.contains("the process ended"), "{line}");
                    line.split(' ').next().unwrap().parse().unwrap()
                })
                .collect();
            dead.sort_unstable();
            assert_eq!(dead, KILLERS);
            return;
        }
    }
}

/// The process of a service that has one long job, and ends without a stop. Does nothing in an ordinary run.
#[test]
fn in_a_process_that_ends_with_its_system() {
    let Ok(path) = std::env::var(STORE) else { return };
    let system = System::new();
    system.block_on(async {
        let options = RouteOptions::new().retry(RetryPolicy::default().max_attempts(1));
        let builder = DurableTimers::builder(EmbeddedStore::open(Path::new(&path)).unwrap());
        let timers = builder.route_with::<Job>(ROUTE, Worker.start(), options).start().unwrap();
        let counts = timers.counts().await.unwrap();
        eprintln!("pending {} dead {}", counts.pending, counts.dead);
        if counts.dead > 0 {
            std::process::exit(1);
        }
        if counts == Default::default() {
            let _ = timers.schedule_after(ROUTE, Duration::ZERO, Job(LONG)).await.unwrap();
        }
    });
    let _ = system.run();
    // As at the end of `main`.
    std::process::exit(0);
}

#[test]
fn the_end_of_its_system_makes_a_suspect_no_dead_letter() {
    let directory = tempfile::tempdir().unwrap();
    let process = |ends: bool| {
        let mut child = process_of("killers::in_a_process_that_ends_with_its_system", &directory.path().join("store"));
        if ends {
            child.env(ENDS, "");
        }
        Talking::start(child).rest()
    };
    assert!(process(false).iter().any(|line| line == "pending 0 dead 0"));
    for _ in 0..3 {
        let said = process(true);
        assert!(
            said.iter().any(|line| line == "pending 1 dead 0") && said.iter().any(|line| line == "long"),
            "{said:?}"
        );
    }
}
