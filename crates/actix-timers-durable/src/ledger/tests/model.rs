//! Random requests, faults and crashes at every commit, checked against a model.
//!
//! The model knows only the replies: an unanswered request may or may not have had an effect.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::world::{Coming, Random, World, at, coming};
use crate::ledger::{Cancellation, Request, Rescheduling, Scheduled, Verdict};
use crate::record::{Missed, RepeatMode, StoredRepeat};
use crate::store::{FsyncOutcome, OnKey, Part, TimerStore};
use crate::{DueTime, DurableId, Record, RecordState};

/// The known state of one timer.
#[derive(Debug, Default)]
struct Known {
    is_acknowledged: bool,
    /// A reply has excluded further deliveries.
    is_gone: bool,
    /// Unknown: a request for its end failed, or it was replaced without a reply.
    may_be_gone: bool,
    times: Option<u64>,
    /// The number of the last cleared delivery, by repetition.
    attempts: BTreeMap<u64, Last>,
    /// Repetitions done for good.
    done: HashSet<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    attempt: u32,
    /// Whether the next delivery certainly has the next number.
    is_certain: bool,
}

struct Checked {
    world: World,
    random: Random,
    known: HashMap<DurableId, Known>,
    ids: Vec<DurableId>,
    /// Reported, and not yet claimed.
    due: Vec<DurableId>,
    in_flight: Vec<Arc<Record>>,
    /// Some verdicts may not be on disk.
    is_troubled: bool,
}

enum Asked {
    Schedule(DurableId, Coming<Scheduled>),
    Cancel(DurableId, Coming<Cancellation>),
    Reschedule(Coming<Rescheduling>),
    Requeue(DurableId, Coming<bool>),
    Claim(Coming<Vec<Arc<Record>>>),
}

impl Checked {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let world = World::holding(1 + random.below(40) as usize);
        let (known, ids) = (HashMap::new(), vec![]);
        Self { world, random, known, ids, due: vec![], in_flight: vec![], is_troubled: false }
    }

    fn some_id(&mut self) -> Option<DurableId> {
        // Mostly one of the last.
        let from = self.ids.len().saturating_sub(if self.random.once_in(4) { usize::MAX } else { 20 });
        self.random.pick(&self.ids[from..])
    }

    fn schedule(&mut self) -> (Request, Asked) {
        let now = self.world.wall.as_millis();
        let due = (now + self.random.below(150_000)).saturating_sub(self.random.below(20_000));
        let times = self.random.once_in(6).then(|| 1 + self.random.below(3));
        let missed = self.random.pick(&[Missed::Skip, Missed::Burst, Missed::Delay]).unwrap();
        let mode = RepeatMode::FixedRate { period: Duration::from_millis(1 + self.random.below(9000)), missed };
        let repeat = times.map(|times| StoredRepeat { mode, times: Some(times), until: None });
        let key = self.random.once_in(5).then(|| format!("key {}", self.random.below(4)).into());
        let record = Arc::new(Record { repeat, key, ..self.world.record(due) });
        let id = record.id;
        self.ids.push(id);
        self.known.insert(id, Known { times, ..Known::default() });
        let on_key = if self.random.once_in(2) { OnKey::Replace } else { OnKey::KeepExisting };
        if on_key == OnKey::Replace && record.key.is_some() && self.is_troubled {
            // Without a reply any timer with a key may have been replaced.
            self.known.values_mut().for_each(|known| known.may_be_gone = true);
        }
        let (request, coming) = coming(|answer| Request::Schedule { record, on_key, answer });
        (request, Asked::Schedule(id, coming))
    }

    fn request(&mut self) -> Option<(Request, Option<Asked>)> {
        let due = at(self.world.wall.as_millis() + self.random.below(100_000));
        Some(match self.random.below(20) {
            0..8 => {
                let (request, asked) = self.schedule();
                (request, Some(asked))
            }
            8..10 => {
                let id = self.some_id()?;
                let (request, coming) = coming(|answer| Request::Cancel { id, answer });
                (request, Some(Asked::Cancel(id, coming)))
            }
            10..12 => {
                let id = self.some_id()?;
                let (request, coming) = coming(|answer| Request::Reschedule { id, due, answer });
                (request, Some(Asked::Reschedule(coming)))
            }
            12 => {
                let id = self.some_id()?;
                let (request, coming) = coming(|answer| Request::Requeue { id, answer });
                (request, Some(Asked::Requeue(id, coming)))
            }
            13..16 => {
                let count = self.random.below(1 + self.due.len() as u64) as usize;
                let ids: Vec<_> = self.due.drain(..count).collect();
                let (request, coming) = coming(|answer| Request::Claim { ids, answer });
                (request, Some(Asked::Claim(coming)))
            }
            16..19 => {
                let nth = self.random.below(self.in_flight.len().max(1) as u64) as usize;
                if nth >= self.in_flight.len() {
                    return None;
                }
                let record = self.in_flight.swap_remove(nth);
                let verdict = match self.random.below(6) {
                    0..3 => Verdict::Complete,
                    3 => Verdict::Retry { due },
                    4 => Verdict::DeadLetter { reason: "it failed".into() },
                    _ => Verdict::Undelivered { again: due },
                };
                self.ends(&record, &verdict);
                (Request::Ended { id: record.id, progress: record.progress, verdict }, None)
            }
            _ if self.random.once_in(3) => (Request::Overrun, None),
            _ => (Request::Recheck, None),
        })
    }

    fn ends(&mut self, record: &Record, verdict: &Verdict) {
        let known = self.known.get_mut(&record.id).unwrap();
        let repetition = record.progress.repetition;
        match verdict {
            Verdict::Complete | Verdict::DeadLetter { .. } => _ = known.done.insert(repetition),
            Verdict::Undelivered { .. } => {
                // The same number again; or the next, after a crash before that is on disk.
                known.attempts.get_mut(&repetition).unwrap().is_certain = false;
            }
            Verdict::Retry { .. } | Verdict::Park => {}
        }
    }

    /// Runs one group of requests, and checks the replies.
    fn group(&mut self, fault: Fault) {
        self.is_troubled |= fault != Fault::None;
        let count = 1 + self.random.below(12);
        let (mut requests, mut asked) = (vec![], vec![]);
        for _ in 0..count {
            let Some((request, answer)) = self.request() else { continue };
            requests.push(request);
            asked.extend(answer);
        }
        if fault != Fault::None {
            // So that there is a commit.
            let (request, answer) = self.schedule();
            requests.push(request);
            asked.push(answer);
        }
        match fault {
            Fault::None => {}
            Fault::Rejected(commits) => self.world.disk.reject_commits(commits),
            Fault::Fsync(kept) => self.world.disk.fail_next_fsync(kept),
        }
        self.world.turn(requests);
        // In the order of the ledger: its own first.
        asked.sort_by_key(|asked| !matches!(asked, Asked::Claim(_)));
        let mut cancelled = vec![];
        for asked in asked {
            self.answered(asked, &mut cancelled);
        }
        for id in cancelled {
            self.known.get_mut(&id).unwrap().is_gone = true;
        }
    }

    fn answered(&mut self, asked: Asked, gone: &mut Vec<DurableId>) {
        match asked {
            Asked::Schedule(id, coming) => match coming.get() {
                Ok(Scheduled::Created) => self.known.get_mut(&id).unwrap().is_acknowledged = true,
                Ok(Scheduled::Exists(other)) => {
                    assert!(!self.known[&other].is_gone, "it exists");
                    self.known.get_mut(&id).unwrap().is_gone = true;
                }
                Ok(Scheduled::Replaced { id: other, in_progress }) => {
                    let is_in_flight = self.in_flight.iter().any(|record| record.id == other);
                    assert!(in_progress || !is_in_flight);
                    self.known.get_mut(&id).unwrap().is_acknowledged = true;
                    gone.push(other);
                }
                Err(_) => self.is_troubled = true,
            },
            Asked::Cancel(id, coming) => match coming.get() {
                Ok(Cancellation::Cancelled) => {
                    assert!(self.in_flight.iter().all(|record| record.id != id), "it is being delivered");
                    gone.push(id);
                }
                // The delivery in progress is the last.
                Ok(Cancellation::InProgress) => gone.push(id),
                Ok(Cancellation::NotFound) => {
                    let known = &self.known[&id];
                    // Dead letter, done, cancelled, or never stored.
                    let ended = known.is_gone || known.may_be_gone || !known.done.is_empty() || gone.contains(&id);
                    assert!(ended || !known.is_acknowledged, "{id}: {known:?}");
                }
                Err(_) => self.known.get_mut(&id).unwrap().may_be_gone = true,
            },
            Asked::Reschedule(coming) => drop(coming.get()),
            Asked::Requeue(id, coming) => {
                // A done repetition is open again, and counted from the start.
                let answer = coming.get();
                let known = self.known.get_mut(&id).unwrap();
                known.may_be_gone |= answer.is_err();
                if answer.unwrap_or(true) {
                    known.attempts.values_mut().for_each(|last| *last = Last { attempt: 0, is_certain: false });
                    known.is_gone = false;
                    gone.retain(|gone| *gone != id);
                }
            }
            Asked::Claim(coming) => {
                for record in coming.get().unwrap() {
                    self.cleared(record);
                }
            }
        }
    }

    fn cleared(&mut self, record: Arc<Record>) {
        let id = record.id;
        assert!(record.progress.due <= self.world.wall, "never early");
        assert!(self.in_flight.iter().all(|other| other.id != id), "never twice at a time");
        let known = self.known.get_mut(&id).unwrap();
        assert!(!known.is_gone, "{id} was cancelled: {known:?}");
        let RecordState { attempt, repetition, .. } = record.progress;
        assert!(known.times.unwrap_or(1) >= repetition);
        let last = known.attempts.insert(repetition, Last { attempt, is_certain: !self.is_troubled });
        match last {
            None => assert!(attempt == 1 || self.is_troubled, "{id}: the first is the first: {record:?}"),
            Some(Last { attempt: last, is_certain: true }) => assert_eq!(attempt, last + 1, "{id}"),
            Some(Last { attempt: last, is_certain: false }) => {
                assert!(
                    attempt == last || attempt == last + 1 || last == 0 || self.is_troubled,
                    "{attempt} after {last}"
                );
            }
        }
        self.in_flight.push(record);
    }

    fn crash(&mut self) {
        // A complete repetition that may not be on disk may be repeated.
        if self.is_troubled {
            for known in self.known.values_mut() {
                known.may_be_gone |= !known.done.is_empty();
                known.done.clear();
            }
        }
        self.due.clear();
        self.in_flight.clear();
        self.world.disk.reject_commits(0);
        self.world.crash();
        self.is_troubled = false;
        for known in self.known.values_mut() {
            known.attempts.values_mut().for_each(|last| last.is_certain = last.is_certain && last.attempt > 0);
        }
    }

    fn pass(&mut self) {
        let millis = self.random.below(20_000);
        self.world.pass(millis);
        let due: Vec<_> = self.world.due().iter().map(|record| record.id).collect();
        self.due.extend(due);
    }

    /// Delivers everything successfully from now on.
    fn finish(mut self) {
        self.world.disk.reject_commits(0);
        self.crash();
        for _ in 0..10_000 {
            let due: Vec<_> = self.world.due().iter().map(|record| record.id).collect();
            for record in self.world.claim(&due) {
                let id = record.id;
                self.cleared(record);
                let record = self.in_flight.pop().unwrap();
                self.known.get_mut(&id).unwrap().done.insert(record.progress.repetition);
                self.world.end(&record, Verdict::Complete);
            }
            if self.world.counts().pending == 0 {
                break;
            }
            self.world.pass(5000);
        }
        assert_eq!(self.world.counts().pending, 0);
        assert_eq!(self.world.disk.open().acquire(0).unwrap().claims, [], "every claim has ended");
        self.world.reopen();
        let page = super::life::everything(Part::Dead, 100_000);
        let dead = self.world.ask(|answer| Request::List { query: page, answer }).unwrap();
        let dead: HashSet<_> = dead.seen.iter().map(|seen| seen.found.record.id).collect();
        for (id, known) in &self.known {
            let is_delivered = !known.attempts.is_empty() || dead.contains(id);
            let may_be_missing = !known.is_acknowledged || known.is_gone || known.may_be_gone;
            assert!(is_delivered || may_be_missing, "{id} was acknowledged: {known:?}");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Rejected(u64),
    Fsync(FsyncOutcome),
}

fn scaled(seeds: u64) -> std::ops::Range<u64> {
    0..if cfg!(debug_assertions) { seeds } else { seeds * 20 }
}

#[test]
fn without_faults_every_promise_is_kept() {
    for seed in scaled(60) {
        let mut checked = Checked::new(seed);
        for _ in 0..60 {
            checked.group(Fault::None);
            checked.pass();
        }
        checked.finish();
    }
}

#[test]
fn with_crashes_between_commits_every_promise_is_kept() {
    for seed in scaled(60) {
        let mut checked = Checked::new(1000 + seed);
        for _ in 0..60 {
            checked.group(Fault::None);
            if checked.random.once_in(8) {
                checked.crash();
            }
            checked.pass();
        }
        checked.finish();
    }
}

/// Repeats the same run, with a power cut in each commit in turn, whose changes are kept or not.
#[test]
fn with_the_power_cut_in_any_commit_every_promise_is_kept() {
    for seed in scaled(4) {
        for nth in 0..40 {
            for kept in [FsyncOutcome::All, FsyncOutcome::Nothing] {
                let mut checked = Checked::new(2000 + seed);
                for group in 0..40 {
                    let fault = if group == nth { Fault::Fsync(kept) } else { Fault::None };
                    checked.group(fault);
                    if group == nth {
                        checked.crash();
                    }
                    checked.pass();
                }
                checked.finish();
            }
        }
    }
}

#[test]
fn with_a_store_that_rejects_now_and_then_every_promise_is_kept() {
    for seed in scaled(60) {
        let mut checked = Checked::new(3000 + seed);
        for _ in 0..60 {
            let fault = if checked.random.once_in(4) { Fault::Rejected(checked.random.below(5)) } else { Fault::None };
            checked.group(fault);
            if checked.random.once_in(15) {
                checked.crash();
            }
            checked.pass();
        }
        checked.finish();
    }
}

/// The clock is stepped at random.
#[test]
fn with_steps_of_the_clock_nothing_is_early_and_nothing_is_lost() {
    for seed in scaled(40) {
        let mut checked = Checked::new(4000 + seed);
        for _ in 0..60 {
            checked.group(Fault::None);
            if checked.random.once_in(10) {
                let wall = checked.random.below(1_000_000);
                checked.world.set_wall(wall);
                checked.world.recheck();
            }
            if checked.random.once_in(10) {
                checked.crash();
            }
            checked.pass();
        }
        let end = DueTime::MIN.saturating_add(Duration::from_secs(3000));
        checked.world.set_wall(end.as_millis());
        checked.finish();
    }
}
