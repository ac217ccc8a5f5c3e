//! A steady load of new and due timers, before and while another session keeps an old snapshot, so that the rows of done
//! timers cannot be removed.
//!
//! The load does not wait for the subject. Each timer is stored, falls due a second or two later, is found by a page of
//! due ones (by `SKIP LOCKED`), and is delivered.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::DueTime;

use super::quantile;
use crate::contenders::queue::{Queue, SKIP_LOCKED};
use crate::contenders::{How, SCHEDULE, Table, Way};
use crate::settings::Settings;
use crate::sql::Sessions;
use crate::store::{self, Claimed, Member, Place, Turn, settle};
use crate::timer::{Book, SHARDS, Timer, millis};
use bench::rows::{OURS, Row, Rows};

/// New timers a second.
const RATE: u64 = 8000;
/// The most new timers of a turn, and the most delivered by a statement with `SKIP LOCKED`.
const GROUP: usize = 256;
/// The longest time of a snapshot beside `SKIP LOCKED`, which no target concerns.
const OF_OTHERS: Duration = Duration::from_secs(60);
/// Records of a page.
const PAGE: usize = 1024;
/// Parts of a measured time.
const TENTHS: u32 = 10;
/// The time from one page of a shard to the next.
const ROUND_OF_SHARDS: Duration = Duration::from_millis(500);

pub(crate) const WORKLOAD: &str = "8 000 a second";
pub(crate) const BEFORE: &str = "ns a timer, before the snapshot";
pub(crate) const PINNED: &str = "ns a timer, with the snapshot pinned";
pub(crate) const PAGE_BEFORE: &str = "µs a page (p99), before the snapshot";
pub(crate) const PAGE_PINNED: &str = "µs a page (p99), with the snapshot pinned";

/// A subject with a steady load.
trait Steady {
    /// Stores new timers, and delivers some of the due ones. Returns the numbers of the latter.
    fn turn(&mut self, new: &[Timer], now: DueTime) -> Vec<u64>;

    /// Takes the times of pages since the last call, if it has pages.
    fn take_pages(&mut self) -> Vec<Duration>;

    /// Counts the rows.
    fn pending(&mut self) -> u64;
}

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let mut queue = Queue::new(url);
    let fill = Way { workload: SCHEDULE, subject: SKIP_LOCKED, how: How::Groups(4096) };
    queue.schedule(fill, &Book::new(settings.pending).schedule(settings.pending as usize));
    queue.settle();
    let mut of_others = settings.clone();
    of_others.pinned = settings.pinned.min(OF_OTHERS);
    measure(&of_others, url, SKIP_LOCKED, &mut queue, rows);
    drop(queue);
    let place = Place::new(settings, url, "pinned");
    store::fill(&place, Book::new(settings.pending).schedule(settings.pending as usize).into_iter());
    let mut members = [Member::join(&place, "steady")];
    settle(&mut members, SHARDS);
    let [mut member] = members;
    member.load_from(now());
    let sessions = Sessions::open(url, 1);
    let mut ours = Ours {
        member,
        sessions,
        schema: place.schema,
        claimed: Claimed::NONE,
        next: (0, Instant::now()),
        pages: Vec::new(),
    };
    measure(settings, url, OURS, &mut ours, rows);
    ours.member.leave();
}

fn now() -> DueTime {
    DueTime::reached_at(SystemTime::now())
}

/// The load of a subject.
struct Load<'a> {
    subject: &'a mut dyn Steady,
    started: Instant,
    /// The number of the first timer.
    first: u64,
    scheduled: u64,
    is_delivered: Vec<bool>,
    delivered: u64,
}

impl Load<'_> {
    /// Runs for a while. Returns nanoseconds per delivered timer, for each tenth of it.
    fn run(&mut self, duration: Duration) -> Vec<f64> {
        (0..TENTHS).map(|_| self.run_a_part(duration / TENTHS)).collect()
    }

    fn run_a_part(&mut self, duration: Duration) -> f64 {
        let (before, started) = (self.delivered, Instant::now());
        while started.elapsed() < duration {
            let expected = (self.started.elapsed().as_micros() * u128::from(RATE) / 1_000_000) as u64;
            let new = (expected - self.scheduled).min(GROUP as u64);
            self.turn(new);
            if new < GROUP as u64 {
                thread::sleep(Duration::from_millis(4));
            }
        }
        started.elapsed().as_nanos() as f64 / (self.delivered - before).max(1) as f64
    }

    fn turn(&mut self, new: u64) {
        let now = now();
        let first = self.first + self.scheduled;
        let timer = |number: u64| {
            let delay = Duration::from_millis(1000 + number.wrapping_mul(7919) % 1000);
            Timer { number, due: now.saturating_add(delay) }
        };
        let timers: Vec<_> = (first..first + new).map(timer).collect();
        self.scheduled += new;
        self.is_delivered.resize(self.scheduled as usize, false);
        for number in self.subject.turn(&timers, now) {
            let is_delivered = &mut self.is_delivered[(number - self.first) as usize];
            assert!(!*is_delivered, "{number} was delivered twice");
            *is_delivered = true;
            self.delivered += 1;
        }
    }
}

fn measure(settings: &Settings, url: &str, name: &str, subject: &mut dyn Steady, rows: &mut Rows) {
    let sessions = Sessions::open(url, 1);
    let window = Duration::from_secs(settings.scaled(10, 1) as u64);
    let first = settings.pending;
    let started = Instant::now();
    let mut load = Load { subject, started, first, scheduled: 0, is_delivered: Vec::new(), delivered: 0 };
    // The first timers fall due.
    load.run(Duration::from_secs(3));
    load.subject.take_pages();
    let before = load.run(window);
    let mut pages_before = load.subject.take_pages();
    sessions.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    sessions.number("SELECT count(*) FROM pg_class");
    let pinned = load.run(settings.pinned);
    let mut pages_pinned = load.subject.take_pages();
    sessions.execute("COMMIT");
    sessions.execute("VACUUM");
    while load.delivered < load.scheduled {
        load.turn(0);
        thread::sleep(Duration::from_millis(1));
    }
    // The last claims end.
    load.turn(0);
    assert_eq!(load.subject.pending(), settings.pending, "{name}");
    let mut push = |unit, samples| {
        let (layer, subject) = ("store", name.to_owned());
        rows.push(Row { workload: WORKLOAD, layer, subject, size: settings.pending, unit, samples });
    };
    push(BEFORE, before);
    push(PINNED, pinned);
    for (unit, pages) in [(PAGE_BEFORE, &mut pages_before), (PAGE_PINNED, &mut pages_pinned)] {
        if !pages.is_empty() {
            push(unit, vec![quantile(pages, 0.99).as_nanos() as f64 / 1e3]);
        }
    }
}

impl Steady for Queue {
    fn turn(&mut self, new: &[Timer], now: DueTime) -> Vec<u64> {
        self.add_and_deliver(new, millis(now), GROUP)
    }

    fn take_pages(&mut self) -> Vec<Duration> {
        Vec::new()
    }

    fn pending(&mut self) -> u64 {
        Table::pending(self)
    }
}

struct Ours {
    member: Member,
    sessions: Sessions,
    schema: String,
    /// The deliveries of the last turn.
    claimed: Claimed,
    /// The next shard to load, and when.
    next: (u16, Instant),
    pages: Vec<Duration>,
}

impl Steady for Ours {
    fn turn(&mut self, new: &[Timer], now: DueTime) -> Vec<u64> {
        let (mut due, mut cursors) = (Vec::new(), Vec::new());
        // Several shards, if the last turn took long.
        for _ in 0..SHARDS {
            if self.next.1 > Instant::now() || due.len() >= 4 * GROUP {
                break;
            }
            let shard = self.next.0;
            self.next = ((shard + 1) % SHARDS, self.next.1 + ROUND_OF_SHARDS / u32::from(SHARDS));
            // All timers up to the position before this page are done, or will be with this commit.
            cursors.extend(self.member.loaded_to(shard).map(|to| (shard, to)));
            loop {
                let started = Instant::now();
                let page = self.member.page(shard, now, PAGE);
                self.pages.push(started.elapsed());
                due.extend(&page);
                if page.len() < PAGE {
                    break;
                }
            }
        }
        let claimed = self.member.claim(due);
        let numbers = claimed.numbers().collect();
        if !new.is_empty() || !claimed.is_empty() || !self.claimed.is_empty() {
            let turn = Turn { new, ended: &self.claimed, claimed: &claimed, cursors: &cursors };
            self.member.commit(&turn);
        }
        self.claimed = claimed;
        numbers
    }

    fn take_pages(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.pages)
    }

    fn pending(&mut self) -> u64 {
        self.sessions.number(&format!("SELECT count(*) FROM {}.timers", self.schema))
    }
}
