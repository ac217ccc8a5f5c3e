//! The embedded store alone, without actors: `cargo bench -p actix-timers-durable --bench store -- [PENDING] [ROUNDS] [DIR]`.
//!
//! - `puts`: groups of 256 changes of one new timer each, beside inserts of bare rows of SQLite in the same groups.
//! - `lifecycles`: in groups of 1024 timers are put, found by looks when they are due, claimed, and deleted: with five
//!   delays among a million pending, the same beside a million that are due tomorrow, and with delays spread uniformly; the
//!   first and the last of these also with a past, which gets a row for each.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_timers_durable::store::OnKey;
use actix_timers_durable::store::{
    Claim, Delivery, EmbeddedStore, Filter, Look, NewTimer, Next, NodeInfo, Note, Op, Outcome, Position, Progress,
    Record, Served, Store, Suspects,
};
use actix_timers_durable::{DueTime, DurableId};
use rusqlite::Connection;

const START: u64 = 1_700_000_000_000;
const TOMORROW: u64 = 86_400_000;
const CALLERS: u64 = 256;
const GROUP: u64 = 1024;
const PAYLOAD: usize = 96;

fn at(millis: u64) -> DueTime {
    DueTime::from_millis(START + millis).unwrap()
}

struct Numbers(u64);

impl Numbers {
    /// Returns a number of splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

fn put(numbers: &mut Numbers, due: u64) -> Op {
    let random = numbers.next();
    let record = Record {
        id: DurableId::from_parts(at(due), random >> 3, random),
        progress: Progress::first(at(due)),
        route: "reminders".into(),
        message_type: "Remind".into(),
        message_version: 1,
        key: None,
        repeat: None,
        keep_key: None,
        max_attempts: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: [random as u8; PAYLOAD].into(),
    };
    Op::Put(vec![NewTimer { record: Arc::new(record), on_key: OnKey::KeepExisting }])
}

fn filter() -> Arc<Filter> {
    let (route, message_type) = ("reminders".into(), "Remind".into());
    Arc::new(Filter { served: vec![Served { index: 0, route, message_type, version: 1, max_attempts: 10 }] })
}

fn open(directory: &Path) -> EmbeddedStore {
    let mut store = EmbeddedStore::open(directory).unwrap();
    let _ = store.join(&NodeInfo { name: "bench".into(), serves: (*filter()).clone() }, at(0)).unwrap();
    store
}

fn bare(directory: &Path) -> Connection {
    let connection = Connection::open(directory.join("bare.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768;
             CREATE TABLE bare (id BLOB PRIMARY KEY, route TEXT, payload BLOB) STRICT, WITHOUT ROWID",
        )
        .unwrap();
    connection
}

fn puts(directory: &Path, groups: u64, rounds: usize) {
    let (mut store, bare) = (open(&directory.join("puts")), bare(directory));
    let mut numbers = Numbers(1);
    for round in 0..rounds {
        let groups: Vec<Vec<Op>> = (0..groups)
            .map(|_| {
                (0..CALLERS)
                    .map(|_| {
                        let due = numbers.next() % TOMORROW;
                        put(&mut numbers, due)
                    })
                    .collect()
            })
            .collect();
        let began = Instant::now();
        for group in &groups {
            bare.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut insert = bare.prepare_cached("INSERT INTO bare VALUES (?1, ?2, ?3)").unwrap();
            for op in group {
                let Op::Put(timers) = op else { continue };
                let record = &timers[0].record;
                insert.execute((record.id.as_uuid().as_bytes(), &record.route, &record.payload)).unwrap();
            }
            bare.execute_batch("COMMIT").unwrap();
        }
        let bare_took = began.elapsed();
        let began = Instant::now();
        for group in &groups {
            assert!(store.apply(group, at(0)).unwrap().iter().all(Result::is_ok));
        }
        let took = began.elapsed();
        let each = |took: Duration| took.as_nanos() / u128::from(groups.len() as u64 * CALLERS);
        let ratio = took.as_secs_f64() / bare_took.as_secs_f64();
        println!("puts, round {round}: {} ns bare, {} ns ours, ratio {ratio:.2}", each(bare_took), each(took));
    }
}

/// Returns the CPU time of this thread: on a busy machine it says more than the rates.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn end(keeps_past: bool) -> Next {
    let note = Note { took_ms: 7, outcome: Some("complete"), error: None, result: None };
    if keeps_past { Next::Noted(Box::new(Next::Delete), Box::new(note)) } else { Next::Delete }
}

/// Runs steps of a millisecond; `delay` returns the delays in ms.
fn lifecycles(
    name: &str,
    directory: &Path,
    tomorrow: u64,
    longest: u64,
    rounds: usize,
    keeps_past: bool,
    mut delay: impl FnMut(u64) -> u64,
) {
    const STEPS: u64 = 120;
    let mut store = open(&directory.join(name.replace(' ', "-")));
    let mut numbers = Numbers(2);
    let mut group = Vec::new();
    let fill = |store: &mut EmbeddedStore, group: &mut Vec<Op>| {
        if group.len() >= 16 * GROUP as usize {
            store.apply(group, at(0)).unwrap();
            group.clear();
        }
    };
    for _ in 0..tomorrow {
        let due = TOMORROW + numbers.next() % TOMORROW;
        group.push(put(&mut numbers, due));
        fill(&mut store, &mut group);
    }
    // Those that would be pending by now.
    for before in (1..=longest).rev() {
        for _ in 0..GROUP {
            let delay = delay(numbers.next());
            if delay > before {
                group.push(put(&mut numbers, delay - before));
                fill(&mut store, &mut group);
            }
        }
    }
    store.apply(&group, at(0)).unwrap();
    let pending = actix_timers_durable::store::Reads::counts(&mut store, None).unwrap().pending;
    let (mut after, mut ending, filter) = (None, Vec::<Delivery>::new(), filter());
    let (mut now, mut spent) = (0, [0.0; 2]);
    let (mut rates, mut cpu, mut count) = (vec![], Duration::ZERO, 0);
    for _ in 0..rounds {
        let steps: Vec<Vec<Op>> = (0..STEPS)
            .map(|step| {
                (0..GROUP)
                    .map(|_| {
                        let due = now + step + delay(numbers.next());
                        put(&mut numbers, due)
                    })
                    .collect()
            })
            .collect();
        let (began, cpu_began, mut ended) = (Instant::now(), cpu_time(), 0);
        for mut ops in steps {
            let looked = Instant::now();
            let look = Look { after, until: at(now), filter: Arc::clone(&filter), limit: 16 * GROUP as usize };
            let hints = store.look(&look, at(now)).unwrap();
            spent[0] += looked.elapsed().as_secs_f64();
            after = hints.last().map(|hint| Position { due: hint.due, id: hint.id }).or(after);
            let ids: Vec<DurableId> = hints.iter().map(|hint| hint.id).collect();
            ended += ending.len();
            ops.extend(ending.drain(..).map(|delivery| Op::End(delivery, end(keeps_past))));
            ops.push(Op::Claim(Claim { ids, filter: Arc::clone(&filter), suspects: Suspects::Left }));
            let applied = Instant::now();
            let last = store.apply(&ops, at(now)).unwrap().pop().unwrap().unwrap();
            spent[1] += applied.elapsed().as_secs_f64();
            let Outcome::Claimed { records, .. } = last else { panic!("not a claim") };
            ending.extend(records.iter().map(|record| record.delivery()));
            now += 1;
        }
        cpu += cpu_time() - cpu_began;
        count += ended as u128;
        rates.push(ended as f64 / began.elapsed().as_secs_f64());
    }
    let rates: Vec<_> = rates.iter().map(|rate| format!("{:.0}", rate / 1000.0)).collect();
    let share = 100.0 * spent[0] / (spent[0] + spent[1]);
    let cpu = cpu.as_nanos() / count.max(1);
    println!(
        "lifecycles, {name}, {pending} pending: {} thousand a second, looks {share:.0} %, {cpu} ns of CPU each",
        rates.join(", ")
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |at: usize, default| arguments.get(at).map_or(default, |number: &String| number.parse().unwrap());
    let (pending, rounds): (u64, u64) = (number(0, 1_000_000), number(1, 5));
    let rounds = rounds as usize;
    let directory = match arguments.get(2) {
        Some(directory) => tempfile::tempdir_in(directory).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let directory = directory.path();
    puts(directory, 200, rounds);
    // Of five delays the mean is that of the uniform ones.
    let mean = (pending / GROUP).max(5);
    let five = |mean: u64| move |random: u64| mean * (1 + 2 * (random % 5)) / 5;
    lifecycles("five delays", directory, 0, 2 * mean, rounds, false, five(mean));
    lifecycles("five delays and a past", directory, 0, 2 * mean, rounds, true, five(mean));
    lifecycles("beside tomorrow", directory, pending, 10, rounds, false, five(5));
    lifecycles("uniform", directory, 0, 2 * mean, rounds, false, |random| random % (2 * mean));
    lifecycles("uniform and a past", directory, 0, 2 * mean, rounds, true, |random| random % (2 * mean));
}
