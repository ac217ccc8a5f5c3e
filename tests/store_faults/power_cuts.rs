//! The power fails at any moment, on a real file system: what was acknowledged before is there afterwards.
//!
//! The tests need root, for loop devices; `.ci/run` runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use actix_timers::durable::store::Part;
use actix_timers::durable::{DueTime, DurableMessage, TimerStore};

use crate::kills;
use crate::machine::Machine;
use crate::random::Random;
use crate::shop::{CUSTOMERS, Fate, Order, SERIES, fate, finishing, serving};
use crate::workshop::open;

/// One after the other, on one machine.
const STORES: u64 = 4;
/// Of each of them, all but the last end with a power cut.
const CUTS: u64 = 5;
/// A process that does not end by itself by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, and what it says as it says it.
struct Talking {
    process: Child,
    lines: Receiver<String>,
}

impl Talking {
    fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
        Self { process, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it goes on as long as there is power")
    }

    /// Everything until it has ended by itself.
    fn rest(mut self) -> Vec<String> {
        let mut rest = vec![];
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let _ = self.process.kill();
                    panic!("it does not end; it has said {rest:?}");
                }
            }
        }
        self.process.wait().unwrap();
        rest
    }
}

/// What a process said.
struct Said {
    /// When there was still power.
    before: Vec<String>,
    /// Then, or later.
    after: Vec<String>,
}

/// Lets a process run on the machine, cuts the power at a random moment, and waits until the process has noticed.
fn run_into_a_power_cut(machine: &mut Machine, command: Command, random: &mut Random) -> Said {
    let cord = machine.cord();
    let talking = Talking::start(command);
    // Often when it has just begun.
    let (wanted, longest) = if random.one_in(4) { (0, 100_000) } else { (1 + random.below(300), 4000) };
    let mut before: Vec<_> = (0..wanted).map(|_| talking.next()).collect();
    // Not only when something was just acknowledged, but at any moment: nothing is waited for.
    std::thread::sleep(Duration::from_micros(random.below(longest)));
    before.extend(talking.lines.try_iter());
    cord.pull();
    let after = talking.rest();
    machine.restart();
    Said { before, after }
}

#[test]
#[ignore = "needs root and loop devices"]
fn groups_outlive_a_power_cut_whole_or_not_at_all() {
    let mut machine = Machine::new();
    let mut random = Random::new(u64::from(std::process::id()));
    for store in 0..STORES {
        let path = machine.disk().join(format!("store {store}"));
        let mut groups = 0;
        for cut in 0..CUTS {
            let said = run_into_a_power_cut(&mut machine, kills::child(&path, groups), &mut random);
            let last = |lines: &[String]| lines.iter().rev().find_map(|line| kills::groups_after(line));
            let certain = last(&said.before).unwrap_or(groups);
            // One more may have reached the disk that was not answered any more.
            let possible = last(&said.after).unwrap_or(certain) + 1;
            groups = kills::groups_in(&path, certain..=possible, cut);
        }
    }
}

/// What was said about orders in all lives so far.
#[derive(Default)]
struct Book {
    scheduled: BTreeSet<u64>,
    moved: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
    /// The last order that was kept for each customer.
    kept: BTreeMap<u64, u64>,
    /// The last repetition and attempt that was with the handler, of each order.
    handled: BTreeMap<u64, (u64, u32)>,
    /// Cancelled or handled, for certain or perhaps.
    may_be_gone: BTreeSet<u64>,
}

impl Book {
    /// Takes in what was said. What is not `certain` was said when the power may have been off already.
    fn read(&mut self, lines: &[String], is_certain: bool) {
        for line in lines {
            let mut words = line.split(' ');
            let what = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            match (what, &numbers[..]) {
                ("scheduled", [order]) if is_certain => _ = self.scheduled.insert(*order),
                ("moved", [order]) if is_certain => _ = self.moved.insert(*order),
                ("cancelled", [order]) if is_certain => _ = self.cancelled.insert(*order),
                ("kept", [customer, order]) if is_certain => _ = self.kept.insert(*customer, *order),
                ("cancelling", [order]) => _ = self.may_be_gone.insert(*order),
                ("handled", [order, repetition, attempt]) => {
                    self.handled(*order, (*repetition, *attempt as u32), is_certain);
                }
                ("scheduled" | "moved" | "cancelled" | "kept" | "refused" | "left" | "finished" | "", _) => {}
                // A process may find its disk gone before it has begun.
                _ => assert!(!is_certain, "it said {line:?}"),
            }
        }
    }

    fn handled(&mut self, order: u64, number: (u64, u32), is_certain: bool) {
        assert!(!self.cancelled.contains(&order), "order {order} was cancelled, and handled");
        self.may_be_gone.insert(order);
        let last = self.handled.get(&order).copied().unwrap_or((1, 0));
        assert!(number > last, "order {order} came as {number:?} after {last:?}");
        let (repetition, attempt) = number;
        let is_next = repetition > last.0 || attempt <= last.1 + 1 + CUTS as u32;
        assert!(is_next, "order {order} came as {number:?} after {last:?}");
        if is_certain {
            self.handled.insert(order, number);
        }
    }

    /// Whether what is on disk is what was said.
    fn compare(&self, path: &Path) {
        let mut store = open(path).unwrap();
        assert_eq!(store.check().unwrap(), []);
        let counts = store.counts(0).unwrap();
        assert_eq!((counts.parked, counts.dead), (0, 0));
        let mut pending = BTreeSet::new();
        let mut after = None;
        loop {
            let page = store.load(Part::Pending, 0, after, DueTime::MAX, 100).unwrap();
            for found in page.found {
                let order = Order::decode(found.record.message_version, &found.record.payload).unwrap();
                assert!(order.is_whole());
                assert!(pending.insert(order.number), "order {} is there twice", order.number);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let missing: Vec<_> = self.scheduled.difference(&pending).filter(|it| !self.may_be_gone.contains(it)).collect();
        assert!(missing.is_empty(), "scheduled, and not there: {missing:?}");
        let back: Vec<_> = self.cancelled.intersection(&pending).collect();
        assert!(back.is_empty(), "cancelled, and there: {back:?}");
        for (customer, last) in &self.kept {
            let of_customer = |order: &&u64| **order % CUSTOMERS == *customer && fate(**order) == Fate::Kept;
            let kept: Vec<_> = pending.iter().filter(of_customer).collect();
            assert!(
                kept.len() == 1 && kept[0] >= last,
                "{last} was kept for customer {customer}, and {kept:?} are there"
            );
        }
    }

    /// Whether everything was handled in the end that was to be.
    fn close(&self, last: &[String]) {
        let left: BTreeSet<u64> = last.iter().filter_map(|line| line.strip_prefix("left ")?.parse().ok()).collect();
        for order in &self.scheduled {
            let is_left = left.contains(order) && fate(*order) == Fate::Moved && !self.moved.contains(order);
            let has_gone = self.cancelled.contains(order) || self.may_be_gone.contains(order);
            assert!(has_gone || is_left, "order {order}, which is to be {:?}, was lost", fate(*order));
        }
        for order in left {
            let was_late = matches!(fate(order), Fate::Moved | Fate::Cancelled | Fate::Kept) && order != SERIES;
            let is_late = was_late && !self.moved.contains(&order) && !self.cancelled.contains(&order);
            assert!(is_late, "order {order}, which is to be {:?}, was left", fate(order));
        }
    }
}

/// When the power is off nothing is acknowledged. If it was cut before anything was on disk the process does not begin.
fn assert_silence_after_refusal(said: &Said) {
    let lines: Vec<_> = said.before.iter().chain(&said.after).collect();
    let Some(refused) = lines.iter().position(|line| line.starts_with("refused ")) else {
        let has_begun = lines.iter().any(|line| acknowledges(line));
        return assert!(!has_begun, "it ended otherwise: {lines:?}");
    };
    let later: Vec<_> = lines[refused..].iter().filter(|line| acknowledges(line)).collect();
    assert!(later.is_empty(), "acknowledged when an fsync had failed: {later:?}");
}

fn acknowledges(line: &str) -> bool {
    ["scheduled", "moved", "cancelled", "kept"].contains(&line.split(' ').next().unwrap_or_default())
}

#[test]
#[ignore = "needs root and loop devices"]
fn durable_timers_keep_their_promises_over_power_cuts() {
    let mut machine = Machine::new();
    let mut random = Random::new(u64::from(std::process::id()));
    for store in 0..STORES {
        let path = machine.disk().join(format!("store {store}"));
        let mut book = Book::default();
        for cut in 0..CUTS {
            let first = (1 + cut) * 1_000_000 * CUSTOMERS;
            let said = run_into_a_power_cut(&mut machine, serving(&path, first), &mut random);
            book.read(&said.before, true);
            book.read(&said.after, false);
            assert_silence_after_refusal(&said);
            book.compare(&path);
        }
        let last = Talking::start(finishing(&path)).rest();
        assert_eq!(last.iter().rfind(|line| !line.is_empty()).map(String::as_str), Some("finished"), "{last:?}");
        book.read(&last, true);
        book.close(&last);
    }
}
