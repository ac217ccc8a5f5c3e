//! Nodes in processes of their own, each behind a [proxy](crate::proxy), and the checkers of their lines and tables.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::DurableId;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::book::{Absence, Book};
use crate::clocks::WrongClock;
use crate::lines::micros;
use crate::node::{NODE, NodeConfig, OFFICE, Work};
use crate::proxy::{Proxy, Wire};
use crate::samples::{Owner, Sample, Sampler, client};
use crate::server::Server;
use schemes::random::Random;

/// The lease of nodes, the shortest possible.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// The time after the end of a lease within which others adopt the shards.
const ADOPTION: Duration = Duration::from_secs(2);
/// Anything that has not happened by then never will, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(90);
/// The largest number of deliveries in progress on a node.
pub(crate) const WINDOW: usize = 64;
/// Timers due later are not expected in a test.
const SOON: Duration = Duration::from_secs(600);
/// The numbers of timers for each node. Handlers do not fail at multiples of 7.
pub(crate) const NUMBERS: u64 = 70_000_000;
/// The variable with the number of rounds of each test.
const ROUNDS: &str = "ACTIX_TIMERS_FAULT_ROUNDS";

/// Returns the number of rounds: 1, or as configured.
pub(crate) fn rounds() -> u64 {
    std::env::var(ROUNDS).map_or(1, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Runs the rounds of a test, each with random numbers of its own.
pub(crate) fn in_rounds(mut round: impl FnMut(Random)) {
    for number in 0..rounds() {
        let seed = u64::from(std::process::id()) << 16 | number;
        eprintln!("round {number}, seed {seed}");
        round(Random::new(seed));
    }
}

/// Returns microseconds since 1970.
pub(crate) fn now() -> u64 {
    micros(SystemTime::now())
}

/// A node.
struct NodeProcess {
    label: String,
    process: Child,
    commands: Option<ChildStdin>,
    proxy: Proxy,
    makes_requests: bool,
    /// Whether it may have ended.
    may_end: bool,
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The settings of the nodes to be started.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) shards: u16,
    pub(crate) lease: Duration,
    pub(crate) work: Work,
    pub(crate) window: usize,
    pub(crate) routes: Vec<String>,
    pub(crate) declared: Vec<(String, Option<String>)>,
    pub(crate) connects_once: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shards: 16,
            lease: LEASE,
            work: Work::mixed(),
            window: WINDOW,
            routes: vec![OFFICE.to_owned()],
            declared: Vec::new(),
            connects_once: false,
        }
    }
}

/// Nodes that share a schema, and the checkers.
pub(crate) struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) book: Book,
    pub(crate) sampler: Sampler,
    pub(crate) runtime: Runtime,
    nodes: Vec<NodeProcess>,
    server_url: Arc<Mutex<String>>,
    schema: String,
    directory: TempDir,
    started: u64,
    /// The time at which another server took over.
    switched: Option<u64>,
}

impl Cluster {
    /// Creates a cluster without nodes.
    pub(crate) fn new(server: &Server) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let schema = format!("faults_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let server_url = Arc::new(Mutex::new(server.url().to_owned()));
        let directory = tempfile::tempdir().unwrap();
        Self {
            settings: Settings::default(),
            book: Book::open(&lines(directory.path())),
            sampler: Sampler::start(runtime.handle(), Arc::clone(&server_url), &schema),
            runtime,
            nodes: Vec::new(),
            server_url,
            schema,
            directory,
            started: 0,
            switched: None,
        }
    }

    /// Creates a cluster with these nodes, which have joined.
    pub(crate) fn with_nodes<const N: usize>(server: &Server, letters: [&str; N]) -> (Self, [String; N]) {
        let mut cluster = Self::new(server);
        let labels = letters.map(|letter| cluster.start(server, letter));
        cluster.wait_started(&labels);
        cluster.wait_balanced();
        (cluster, labels)
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn start(&mut self, server: &Server, letter: &str) -> String {
        self.start_with_clock(server, letter, None)
    }

    /// Starts a node, and returns its label.
    pub(crate) fn start_with_clock(&mut self, server: &Server, letter: &str, clock: Option<&WrongClock>) -> String {
        self.started += 1;
        let label = format!("{letter}{}", self.started);
        let proxy = Proxy::start(self.runtime.handle(), server.address());
        let Settings { shards, lease, work, window, routes, declared, connects_once } = self.settings.clone();
        let makes_requests = work != Work::Nothing;
        let config = NodeConfig {
            url: server.url_through(proxy.port()),
            schema: self.schema.clone(),
            label: label.clone(),
            lines: lines(self.directory.path()),
            shards,
            lease_ms: lease.as_millis() as u64,
            routes,
            declared,
            window,
            work,
            first: self.started * NUMBERS,
            connects_once,
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "node::in_the_process_of_a_node", "--nocapture"]);
        command.env(NODE, serde_json::to_string(&config).unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(File::create(self.directory.path().join(&label)).unwrap());
        if let Some(clock) = clock {
            clock.give(&mut command);
        }
        let mut process = command.spawn().unwrap();
        let commands = process.stdin.take();
        self.nodes.push(NodeProcess {
            label: label.clone(),
            process,
            commands,
            proxy,
            makes_requests,
            may_end: connects_once,
        });
        label
    }

    fn node(&mut self, label: &str) -> &mut NodeProcess {
        self.nodes.iter_mut().find(|node| node.label == label).expect("the node runs")
    }

    /// Returns the labels of the running nodes.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.label.clone()).collect()
    }

    fn signal(&mut self, label: &str, signal: &str) {
        let pid = self.node(label).process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Kills a node with SIGKILL.
    pub(crate) fn kill(&mut self, label: &str) {
        let index = self.nodes.iter().position(|node| node.label == label).expect("the node runs");
        drop(self.nodes.remove(index));
    }

    /// Stops a node with SIGSTOP.
    pub(crate) fn freeze(&mut self, label: &str) {
        self.signal(label, "-STOP");
    }

    /// Lets a stopped node continue.
    pub(crate) fn thaw(&mut self, label: &str) {
        self.signal(label, "-CONT");
    }

    /// Notes that a node is stopped or cut off from now on, so that its deliveries may be late.
    pub(crate) fn absent(&mut self, label: &str) {
        let window = self.settings.window * self.settings.routes.len();
        self.book.absent(Absence { node: label.to_owned(), from: now(), window });
    }

    /// Sets the state of a node's connections.
    pub(crate) fn wire(&mut self, label: &str, wire: Wire) {
        self.node(label).proxy.set(wire);
    }

    /// Sets the state of one of a node's connections.
    pub(crate) fn one_wire(&mut self, label: &str, wire: Wire, any: u64) {
        self.node(label).proxy.set_one(wire, any);
    }

    /// Sends all nodes to another server, when they connect again.
    pub(crate) fn redirect(&mut self, server: &Server) {
        // Samples are those of the other server from the first time on, also before it accepts writes.
        self.switched.get_or_insert_with(now);
        self.nodes.iter().for_each(|node| node.proxy.redirect(server.address()));
        *self.server_url.lock().unwrap_or_else(PoisonError::into_inner) = server.url().to_owned();
    }

    pub(crate) fn command(&mut self, label: &str, command: &str) {
        let commands = self.node(label).commands.as_mut().expect("it reads commands");
        commands.write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    /// Waits for the end of a node, after a command.
    pub(crate) fn wait_end(&mut self, label: &str) {
        let index = self.nodes.iter().position(|node| node.label == label).expect("the node runs");
        let began = Instant::now();
        while self.nodes[index].process.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{label} does not end: {}", self.evidence());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.nodes.remove(index);
    }

    /// Lets a condition of the lines become true.
    pub(crate) fn wait(&mut self, what: &str, mut is_true: impl FnMut(&Book, &Sampler) -> bool) {
        let began = Instant::now();
        loop {
            self.book.read();
            if is_true(&self.book, &self.sampler) {
                return;
            }
            self.assert_alive();
            assert!(began.elapsed() < PATIENCE, "it never happens that {what}: {}", self.evidence());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn wait_started(&mut self, labels: &[String]) {
        self.wait("nodes start", |book, _| labels.iter().all(|label| book.has_started(label)));
    }

    /// Waits until each running node that delivers owns its part of the shards.
    pub(crate) fn wait_balanced(&mut self) {
        let labels = self.labels();
        self.wait("shards are balanced", |_, sampler| is_balanced(sampler, &labels));
    }

    /// Waits until no shard belongs to an ended or stopped node, and returns the time. Its lease and the time to adopt
    /// must suffice.
    pub(crate) fn wait_adopted(&mut self, label: &str, since: Instant) -> Duration {
        let limit = self.settings.lease + ADOPTION;
        let others: Vec<_> = self.labels().into_iter().filter(|other| other != label).collect();
        let began = now() - since.elapsed().as_micros() as u64;
        let mut adopted = None;
        self.wait("shards are adopted", |_, sampler| {
            adopted = sampler.first(began, |sample| are_owned_by(sample, &others));
            adopted.is_some()
        });
        let took = Duration::from_micros(adopted.unwrap_or(began) - began);
        assert!(took <= limit, "the shards of {label} were adopted after {took:?}: {}", self.evidence());
        took
    }

    /// Returns the last sample.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        self.sampler.last().map(|sample| sample.owners).unwrap_or_default()
    }

    /// Returns the node that owns most shards.
    pub(crate) fn main_owner(&self) -> String {
        let owners = self.owners();
        let number = |label: &String| owners.iter().filter(|owner| owner.name.as_ref() == Some(label)).count();
        self.labels().into_iter().max_by_key(number).expect("nodes run")
    }

    pub(crate) fn client(&self) -> Client {
        let url = self.server_url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let began = Instant::now();
        loop {
            match self.runtime.block_on(client(&url)) {
                Ok(client) => return client,
                // It may have all its connections in use, or recover from a crash.
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}: {}", self.evidence()),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Queries the server; `{schema}` is replaced.
    pub(crate) fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let client = self.client();
        let sql = sql.replace("{schema}", &self.schema);
        self.runtime.block_on(client.query(&sql, parameters)).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    fn count(&self, sql: &str) -> i64 {
        self.query(sql, &[])[0].get(0)
    }

    /// Returns the ids of pending timers, and of those set aside by nodes that do not know their route.
    pub(crate) fn pending(&self) -> BTreeSet<DurableId> {
        let sql = "SELECT id::text FROM {schema}.timers UNION ALL SELECT id::text FROM {schema}.parked";
        let rows = self.query(sql, &[]);
        let ids: Vec<DurableId> = rows.iter().map(|row| row.get::<_, &str>(0).parse().unwrap()).collect();
        let distinct: BTreeSet<_> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "a timer is there twice: {}", self.evidence());
        distinct
    }

    /// Checks all promises that hold at every moment, while nodes run.
    pub(crate) fn check(&mut self) {
        self.book.read();
        let open = self.book.open_timers();
        let in_tables = self.pending();
        self.book.read();
        let mut violations = self.book.lost(&open, &in_tables);
        violations.extend(self.book.violations());
        violations.extend(self.sampler.violations(self.switched));
        self.assert_none(&violations);
        self.assert_alive();
    }

    /// Lets all nodes end their requests, waits until every timer due soon is handled, stops the nodes, and checks all.
    pub(crate) fn finish(mut self) -> Book {
        self.quiet();
        self.settle();
        self.check();
        let revenants = self.book.revenants(&self.pending());
        self.assert_none(&revenants);
        for label in self.labels() {
            self.command(&label, "stop");
        }
        for label in self.labels() {
            self.wait_end(&label);
        }
        self.book.read();
        let open = self.book.open_timers();
        let in_tables = self.pending();
        let mut violations = self.book.lost(&open, &in_tables);
        violations.extend(self.book.revenants(&in_tables));
        violations.extend(self.book.violations());
        for table in ["parked", "dead_letters", "claims"] {
            let left = self.count(&format!("SELECT count(*) FROM {{schema}}.{table}"));
            if left != 0 {
                violations.push(format!("{left} rows are left in {table}"));
            }
        }
        self.assert_none(&violations);
        let (stored, handled) = self.book.totals();
        eprintln!("{stored} timers, {handled} deliveries, {} samples", self.sampler.number());
        let client = self.client();
        let _ = self.runtime.block_on(client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)));
        self.book
    }

    /// Ends the requests of all nodes.
    pub(crate) fn quiet(&mut self) {
        for label in self.labels() {
            self.command(&label, "quiet");
        }
        let wanted: Vec<_> =
            self.nodes.iter().filter(|node| node.makes_requests).map(|node| node.label.clone()).collect();
        self.wait("requests end", |book, _| wanted.iter().all(|label| book.is_done(label)));
    }

    /// Waits until all timers that are due soon are handled, as long as they become fewer.
    pub(crate) fn settle(&mut self) {
        let until = ((now() + SOON.as_micros() as u64) / 1000) as i64;
        let (mut last, mut fewest) = (Instant::now(), i64::MAX);
        loop {
            let began = Instant::now();
            let due = self.query("SELECT count(*) FROM {schema}.timers WHERE due < $1", &[&until])[0].get::<_, i64>(0);
            let claims = self.count("SELECT count(*) FROM {schema}.claims");
            if due == 0 && claims == 0 {
                return;
            }
            if due < fewest {
                (last, fewest) = (Instant::now(), due);
            }
            self.assert_alive();
            if last.elapsed() > PATIENCE {
                let rows = self.query(
                    "SELECT id::text, shard, due FROM {schema}.timers WHERE due < $1 ORDER BY due LIMIT 20",
                    &[&until],
                );
                let rows: Vec<(String, i16, i64)> =
                    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
                panic!("{due} timers and {claims} claims are left: {rows:?}, at {}: {}", now() / 1000, self.evidence());
            }
            // A count of a million takes long.
            std::thread::sleep(Duration::from_millis(100).max(began.elapsed() * 5));
        }
    }

    /// Asserts that no node has ended by itself or panicked.
    fn assert_alive(&mut self) {
        for node in &mut self.nodes {
            let ended = node.process.try_wait().unwrap();
            let output = std::fs::read_to_string(self.directory.path().join(&node.label)).unwrap_or_default();
            let is_well = (ended.is_none() || node.may_end) && !output.contains("panicked");
            assert!(is_well, "{} has ended ({ended:?}): {output}", node.label);
        }
    }

    pub(crate) fn assert_none(&self, violations: &[String]) {
        if !violations.is_empty() {
            let some = violations[..violations.len().min(12)].join("\n");
            panic!("{} violations: {some}\n{}", violations.len(), self.evidence());
        }
    }

    /// Keeps the lines and outputs of the nodes, and returns their place.
    pub(crate) fn evidence(&self) -> String {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&self.schema);
        let _ = std::fs::create_dir_all(&place);
        for entry in std::fs::read_dir(self.directory.path()).into_iter().flatten().flatten() {
            let _ = std::fs::copy(entry.path(), place.join(entry.file_name()));
        }
        let samples = format!("{:#?}", self.sampler.last());
        let _ = std::fs::write(place.join("owners"), samples);
        let problems = self.book.problems();
        let last = &problems[problems.len().saturating_sub(5)..];
        format!("the lines are kept in {}; the last problems are {last:?}", place.display())
    }
}

fn lines(directory: &Path) -> PathBuf {
    directory.join("lines")
}

/// Returns whether each shard belongs to one of these nodes.
fn are_owned_by(sample: &Sample, labels: &[String]) -> bool {
    !sample.owners.is_empty()
        && sample.owners.iter().all(|owner| owner.name.as_ref().is_some_and(|name| labels.contains(name)))
}

fn is_balanced(sampler: &Sampler, labels: &[String]) -> bool {
    let Some(sample) = sampler.last() else { return false };
    // All others have the largest part.
    let shards = sample.owners.len();
    let least = shards.saturating_sub(shards.div_ceil(labels.len()) * (labels.len() - 1));
    let number = |label: &String| sample.owners.iter().filter(|owner| owner.name.as_ref() == Some(label)).count();
    are_owned_by(&sample, labels) && labels.iter().all(|label| number(label) >= least)
}
