//! A node in a process of its own: this test binary, started again. It schedules, cancels and moves timers at random,
//! its own and those of other nodes, handles messages, and writes a [line](crate::lines) about each event. Commands
//! come through its standard input, a word in a line.
//!
//! | | |
//! |---|---|
//! | `quiet` | no further requests |
//! | `drain`, `stop` | the same of the durable timers, then the process ends |

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, Repeat, RescheduleOutcome};
use actix_timers_durable::store::StoreError;
use actix_timers_durable::{
    DueTime, Durable, DurableError, DurableId, DurableMessage, DurableOptions, DurableTimers, HandlerError,
    RetryPolicy, RouteOptions, Schedule, Scheduled,
};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use serde::{Deserialize, Serialize};

use crate::lines::{Event, Line, Reader, Writer, machine_time};
use schemes::random::Random;

pub(crate) const NODE: &str = "ACTIX_TIMERS_FAULTS_NODE";
/// The route that all nodes deliver unless configured otherwise.
pub(crate) const OFFICE: &str = "office";
/// A due time after the end of every test.
const LATE: Duration = Duration::from_secs(7200);
/// The repetitions of a series.
const SERIES: u64 = 20;
/// The number of timers of other nodes that a node remembers.
const KNOWN: usize = 300;

/// A node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NodeConfig {
    pub(crate) url: String,
    pub(crate) schema: String,
    /// Unique for each process.
    pub(crate) label: String,
    pub(crate) lines: PathBuf,
    pub(crate) settings: Settings,
    /// The first number of its timers; also the seed of its random numbers.
    pub(crate) first: u64,
}

/// The settings of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) work: Work,
    /// The largest number of deliveries in progress for each route.
    pub(crate) window: usize,
    /// Delivered routes.
    pub(crate) routes: Vec<String>,
    /// Routes that are only declared.
    pub(crate) declared: Vec<String>,
    /// The version of its messages: 1 or 2.
    pub(crate) version: u32,
    /// The time to the server.
    pub(crate) way: Duration,
}

impl Settings {
    /// Lets nodes schedule for the usual route, which others deliver.
    pub(crate) fn schedule_only(&mut self, work: Work) {
        (self.routes, self.declared, self.work) = (Vec::new(), vec![OFFICE.to_owned()], work);
    }

    /// Lets nodes deliver the usual route.
    pub(crate) fn deliver(&mut self, work: Work) {
        (self.routes, self.declared, self.work) = (vec![OFFICE.to_owned()], Vec::new(), work);
    }
}

/// The requests of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    Nothing,
    /// All sorts of requests, by this many customers at a time, with pauses of up to this many microseconds.
    Mixed {
        customers: u64,
        pause: u64,
        sizes: Vec<usize>,
    },
    /// So many timers of a route, due after a delay in milliseconds, 256 requests at a time. Their handlers do not fail.
    Burst {
        route: String,
        timers: u64,
        delay: u64,
    },
    /// So many timers that are with their handlers for this many milliseconds.
    Held {
        timers: u64,
        millis: u64,
    },
    /// So many timers, all of which are moved at once, to a delay in milliseconds.
    Moves {
        timers: u64,
        delay: u64,
    },
}

impl Work {
    /// Returns the usual requests.
    pub(crate) fn mixed() -> Self {
        Self::Mixed { customers: 12, pause: 20_000, sizes: vec![30, 30, 30, 2500] }
    }
}

/// A message of a version.
#[derive(Serialize, Deserialize)]
struct Job<const VERSION: u32> {
    number: u64,
    /// The time with the handler.
    millis: u64,
    text: String,
}

impl<const VERSION: u32> Job<VERSION> {
    fn new(number: u64, size: usize) -> Self {
        let millis = if number.is_multiple_of(13) { 1 + number % 150 } else { 0 };
        Self { number, millis, text: text(number, size) }
    }
}

fn text(number: u64, size: usize) -> String {
    std::iter::repeat_n(char::from(b'a' + (number % 26) as u8), size).collect()
}

impl<const VERSION: u32> DurableMessage for Job<VERSION> {
    const NAME: &'static str = "job";
    const VERSION: u32 = VERSION;
}

/// Returns whether the handler fails at this attempt.
pub(crate) fn fails(number: u64, attempt: u32) -> bool {
    number % 7 == 2 && attempt <= 2
}

struct Office(Arc<Writer>);

impl Actor for Office {
    type Context = Context<Self>;
}

impl<const VERSION: u32> Handler<Durable<Job<VERSION>>> for Office {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, job: Durable<Job<VERSION>>, _: &mut Context<Self>) -> Self::Result {
        let Durable { id, attempt, repetition, due, .. } = job;
        let Job { number, millis, text: sent } = job.message;
        let event = Event::Handled { id, number, repetition, attempt, due: due.as_millis() };
        self.0.write(event);
        if sent != text(number, sent.len()) {
            self.0.write(Event::Problem { text: format!("the message {number} is another one") });
        }
        let writer = Arc::clone(&self.0);
        Box::pin(async move {
            if millis > 0 {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
            writer.write(Event::Ended { id, repetition, attempt });
            if fails(number, attempt) { Err(HandlerError::new("not at this attempt")) } else { Ok(()) }
        })
    }
}

/// The requests of a node.
struct Requests {
    config: NodeConfig,
    timers: DurableTimers,
    writer: Arc<Writer>,
    is_quiet: AtomicBool,
    /// Timers of all nodes.
    known: Mutex<VecDeque<DurableId>>,
}

impl Requests {
    async fn ask<const V: u32>(&self, request: Schedule<Job<V>>, number: u64, key: Option<&str>) -> Option<DurableId> {
        let asking = self.timers.schedule(request);
        let id = asking.id();
        let times = if key.is_some_and(|key| key.starts_with("series")) { SERIES } else { 1 };
        self.writer.write(Event::Asked { id, number, key: key.map(str::to_owned), times });
        let (event, stored) = match asking.await {
            Ok(Scheduled::Created(id)) => (Event::Scheduled { id }, Some(id)),
            Ok(Scheduled::Exists(other)) => (Event::Exists { asked: id, id: other }, None),
            Ok(Scheduled::Replaced { id, old, in_progress }) => (Event::Replaced { id, old, in_progress }, Some(id)),
            Err(error) => {
                let why = error.reason.to_string();
                // A moment for a store that rejects at once.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let is_refused = changed_nothing(&error.reason);
                (if is_refused { Event::Refused { id, why } } else { Event::Unsure { id, why } }, None)
            }
        };
        self.writer.write(event);
        stored
    }

    async fn cancel(&self, id: DurableId) {
        self.writer.write(Event::Cancelling { id });
        match self.timers.cancel(id).await {
            Ok(CancelOutcome::Cancelled) => self.writer.write(Event::Cancelled { id }),
            Ok(CancelOutcome::InProgress) => self.writer.write(Event::InProgress { id }),
            Ok(_) => self.writer.write(Event::NotFound { id }),
            // Without a line it counts as perhaps cancelled.
            Err(error) if changed_nothing(&error) => self.writer.write(Event::NotCancelled { id }),
            Err(_) => {}
        }
    }

    async fn move_after(&self, id: DurableId, delay: Duration) {
        let at = machine_time() + delay;
        let due = DueTime::at_or_after(at).unwrap().as_millis();
        self.writer.write(Event::Moving { id, due });
        match self.timers.reschedule_at(id, at).await {
            Ok(RescheduleOutcome::Rescheduled) => self.writer.write(Event::Moved { id, due }),
            Ok(_) => self.writer.write(Event::NotMoved { id, due }),
            Err(error) if changed_nothing(&error) => self.writer.write(Event::NotMoved { id, due }),
            Err(_) => {}
        }
    }

    /// Returns a timer of any node, or none.
    fn any(&self, random: &mut Random) -> Option<DurableId> {
        let known = self.known.lock().unwrap();
        (!known.is_empty()).then(|| known[random.index(known.len())])
    }

    /// Makes one request after the other.
    async fn mixed<const V: u32>(&self, random: &mut Random, mut number: u64, step: u64, pause: u64, sizes: &[usize]) {
        while !self.is_quiet.load(Ordering::Relaxed) {
            number += step;
            let size = sizes[random.index(sizes.len())];
            let soon = Duration::from_millis(random.below(1500));
            let after = |delay| self.ask(Schedule::after(OFFICE, delay, Job::<V>::new(number, size)), number, None);
            match random.below(20) {
                0..8 => _ = after(soon).await,
                8..10 => {
                    if let Some(id) = after(LATE).await {
                        self.cancel(id).await;
                    }
                }
                10..12 => {
                    if let Some(id) = after(LATE).await {
                        self.move_after(id, soon).await;
                    }
                }
                // At about its due time.
                12..14 => {
                    let soon = Duration::from_millis(random.below(60));
                    if let Some(id) = after(soon).await {
                        tokio::time::sleep(soon).await;
                        self.cancel(id).await;
                    }
                }
                14 => {
                    if let Some(id) = self.any(random) {
                        self.cancel(id).await;
                    }
                }
                15 => {
                    if let Some(id) = self.any(random) {
                        let delay = if random.one_in(4) { LATE } else { soon };
                        self.move_after(id, delay).await;
                    }
                }
                16..19 => {
                    let (key, options) = (random.below(16), DurableOptions::new());
                    let name = format!("key {key}");
                    let is_even = key.is_multiple_of(2);
                    let options = if is_even { options.if_absent(&*name) } else { options.replace(&*name) };
                    let delay = if random.one_in(3) { LATE } else { soon };
                    let request = Schedule::after(OFFICE, delay, Job::<V>::new(number, size)).options(options);
                    _ = self.ask(request, number, Some(&name)).await;
                }
                _ => {
                    let name = format!("series {}", random.below(5));
                    let repeat = Repeat::every(Duration::from_millis(50 + random.below(100))).times(SERIES);
                    let series = Schedule::at_fixed_rate(OFFICE, repeat, Job::<V>::new(number, size));
                    let options = DurableOptions::new().if_absent(&*name);
                    _ = self.ask(series.options(options), number, Some(&name)).await;
                }
            }
            if pause > 0 {
                tokio::time::sleep(Duration::from_micros(random.below(pause))).await;
            }
        }
    }

    async fn run<const V: u32>(self: Rc<Self>) {
        let (first, work) = (self.config.first, &self.config.settings.work);
        let customers = match work {
            Work::Nothing => 0,
            Work::Mixed { customers, .. } => *customers,
            Work::Burst { .. } | Work::Held { .. } => 256,
            Work::Moves { timers, .. } => *timers,
        };
        let run = |customer| {
            let requests = Rc::clone(&self);
            actix::spawn(async move { requests.work::<V>(first, customer, customers).await })
        };
        for customer in (0..customers).map(run).collect::<Vec<_>>() {
            customer.await.unwrap();
        }
        self.writer.write(Event::Done);
    }

    /// Makes the requests of one customer of several.
    async fn work<const V: u32>(&self, first: u64, customer: u64, customers: u64) {
        let numbers = |timers: u64| (customer..timers).step_by(customers as usize).map(|number| first + 7 * number);
        match &self.config.settings.work {
            Work::Nothing => {}
            Work::Mixed { pause, sizes, .. } => {
                let mut random = Random::new(first + customer);
                self.mixed::<V>(&mut random, first + customer, customers, *pause, sizes).await;
            }
            Work::Burst { route, timers, delay } => {
                let delay = Duration::from_millis(*delay);
                for number in numbers(*timers) {
                    _ = self.ask(Schedule::after(&**route, delay, Job::<V>::new(number, 30)), number, None).await;
                }
            }
            Work::Held { timers, millis } => {
                for number in numbers(*timers) {
                    let job = Job::<V> { number, millis: *millis, text: text(number, 30) };
                    _ = self.ask(Schedule::after(OFFICE, Duration::ZERO, job), number, None).await;
                }
            }
            Work::Moves { timers, delay } => {
                for number in numbers(*timers) {
                    let request = Schedule::after(OFFICE, LATE, Job::<V>::new(number, 30));
                    if let Some(id) = self.ask(request, number, None).await {
                        self.move_after(id, Duration::from_millis(*delay)).await;
                    }
                }
            }
        }
    }

    /// Reads the lines of all nodes from now on, to know their timers.
    async fn listen(self: Rc<Self>) {
        // To parse millions of bytes would hold up the deliveries for longer than a lease.
        let mut reader = Reader::at_end(&self.config.lines);
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut known = self.known.lock().unwrap();
            for Line { event, .. } in reader.read() {
                if let Event::Scheduled { id } | Event::Replaced { id, .. } = event {
                    known.push_back(id);
                }
            }
            let excess = known.len().saturating_sub(KNOWN);
            known.drain(..excess);
        }
    }
}

/// Returns whether an error says that the request has changed nothing.
fn changed_nothing(error: &DurableError) -> bool {
    match error {
        DurableError::Store(error) => !matches!(**error, StoreError::Unknown(_) | StoreError::Failed(_)),
        // The request may have been in a commit.
        DurableError::Closed => false,
        _ => true,
    }
}

async fn connect(config: &NodeConfig, writer: &Writer) -> PostgresStore {
    loop {
        let lease = config.settings.lease;
        let options = PostgresOptions::new().schema(&config.schema).node(&config.label).lease(lease);
        match PostgresStore::connect(&config.url, options).await {
            Ok(store) => return store,
            Err(error) => {
                writer.write(Event::Problem { text: error.to_string() });
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves with messages of a version.
async fn serve<const V: u32>(config: NodeConfig) {
    let writer = Arc::new(Writer::open(&config.lines, &config.label));
    let settings = &config.settings;
    let mut commands = commands();
    let retry = RetryPolicy::default()
        .max_attempts(1000)
        .initial_delay(Duration::from_millis(5))
        .max_delay(Duration::from_millis(200))
        .timeout(Duration::from_secs(60));
    let timers = loop {
        let mut builder = DurableTimers::builder(connect(&config, &writer).await).name(&*config.label);
        for route in &settings.routes {
            let options = RouteOptions::new().window(settings.window).retry(retry);
            let office = Office(Arc::clone(&writer)).start();
            builder = builder.route_with::<Job<V>>(route, office, options);
        }
        for route in &settings.declared {
            builder = builder.declare::<Job<V>>(route);
        }
        if settings.routes.is_empty() {
            builder = builder.schedule_only();
        }
        match builder.start() {
            Ok(timers) => break timers,
            Err(error) => {
                writer.write(Event::Problem { text: error.to_string() });
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    writer.write(Event::Started);
    let requests = Rc::new(Requests {
        config,
        timers: timers.clone(),
        writer: Arc::clone(&writer),
        is_quiet: AtomicBool::new(false),
        known: Mutex::default(),
    });
    if matches!(requests.config.settings.work, Work::Mixed { .. }) {
        actix::spawn(Rc::clone(&requests).listen());
    }
    actix::spawn(Rc::clone(&requests).run::<V>());
    while let Some(command) = commands.recv().await {
        let ended = match &*command {
            "quiet" => {
                requests.is_quiet.store(true, Ordering::Relaxed);
                continue;
            }
            "drain" => timers.drain().await,
            "stop" => timers.stop().await,
            _ => panic!("{command:?} is no command"),
        };
        if let Err(error) = ended {
            writer.write(Event::Problem { text: format!("{command}: {error}") });
        }
        writer.write(Event::Stopped);
        return;
    }
}

/// Returns the lines of the standard input.
fn commands() -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.send(line.unwrap()).is_err() {
                return;
            }
        }
        // The test has ended.
        std::process::exit(0);
    });
    receiver
}

/// The process of a node. Does nothing in an ordinary run.
#[test]
fn in_the_process_of_a_node() {
    let Ok(config) = std::env::var(NODE) else { return };
    let config: NodeConfig = serde_json::from_str(&config).unwrap();
    support::in_real_time(async {
        if config.settings.version == 1 { serve::<1>(config).await } else { serve::<2>(config).await }
    });
    // Without closing anything else.
    std::process::exit(0);
}
