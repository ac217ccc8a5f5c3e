//! A naive store: what a store must do, without regard for disks, indexes and speed.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_timers_durable::store::{
    Again, Claim, Counts, Delivery, Filter, Found, Hint, Look, NewTimer, Next, Note, Op, Outcome, Part, Placed,
    Position, Progress, Query, Record, Served, State, Suspects, finished_from_json,
};
use actix_timers_durable::store::{NO_END, OnKey};
use actix_timers_durable::{DueTime, DurableId, Pause, PauseTarget};

#[derive(Debug, Clone)]
pub struct Row {
    pub record: Record,
    pub is_claimed: bool,
    pub is_alone: bool,
    pub parked: Option<Arc<str>>,
    pub created: DueTime,
    pub errors: Errors,
}

/// The failures of a timer as objects of JSON.
pub type Errors = Vec<String>;

#[derive(Debug, Clone)]
pub struct Letter {
    pub record: Record,
    pub reason: Arc<str>,
    pub since: DueTime,
    pub errors: Errors,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub rows: BTreeMap<DurableId, Row>,
    pub letters: BTreeMap<DurableId, Letter>,
    /// The pauses of routes.
    pub pauses: BTreeMap<Arc<str>, Pause>,
    /// The keys of timers that are complete, by route and key: the timer, and the end of the time for which it is kept.
    pub kept: BTreeMap<(Arc<str>, Arc<str>), (DurableId, DueTime)>,
    pub past: BTreeMap<(DurableId, u64), Found>,
    /// The types that are claimed.
    pub serves: Arc<Filter>,
}

fn served<'f>(filter: &'f Filter, record: &Record) -> Option<&'f Served> {
    filter.served.iter().find(|served| {
        served.route == record.route
            && served.message_type == record.message_type
            && served.version >= record.message_version
    })
}

pub fn is_suspect(record: &Record, of_route: u32) -> bool {
    let budget = record.max_attempts.unwrap_or(of_route);
    record.progress.used >= if record.max_attempts == Some(NO_END) { 10 } else { budget }
}

fn position(record: &Record) -> Position {
    Position { due: record.progress.due, id: record.id }
}

impl Model {
    pub fn apply(&mut self, op: &Op, now: DueTime) -> Outcome {
        match op {
            Op::Put(timers) => Outcome::Put(timers.iter().map(|new| self.put(new, now)).collect()),
            Op::Claim(claim) => self.claim(claim, now),
            Op::End(delivery, next) | Op::EndWith(delivery, next, _) => {
                self.end(*delivery, next, now).unwrap_or(Outcome::NotFound)
            }
            Op::Cancel(id) => match self.rows.remove(id) {
                Some(row) if row.is_claimed => Outcome::InProgress,
                Some(_) => Outcome::Deleted,
                None => Outcome::NotFound,
            },
            Op::Move(id, due) => match self.rows.get_mut(id) {
                Some(row) if row.is_claimed => Outcome::InProgress,
                Some(Row { record, .. }) => {
                    record.progress.nominal = *due;
                    record.progress.due = (*due).max(now);
                    Outcome::Moved(record.progress.due)
                }
                None => Outcome::NotFound,
            },
            Op::Requeue(id) => self.requeue(*id, now),
            Op::Discard(id) => self.letters.remove(id).map_or(Outcome::NotFound, |_| Outcome::Deleted),
            Op::DiscardOlder { past_of: None, than, limit } => {
                let mut old: Vec<_> = self.letters.values().filter(|letter| letter.since < *than).collect();
                old.sort_by_key(|letter| (letter.since, letter.record.id));
                let old: Vec<_> = old.into_iter().take(*limit).map(|letter| letter.record.id).collect();
                old.iter().for_each(|id| _ = self.letters.remove(id));
                Outcome::Discarded(old.len())
            }
            Op::DiscardOlder { past_of: Some(route), than, .. } => {
                let before = self.past.len();
                self.past.retain(|_, Found { record, .. }| record.route != *route || record.progress.due >= *than);
                Outcome::Discarded(before - self.past.len())
            }
            Op::Restore(found) => Outcome::Put(vec![self.restore(found, now)]),
            Op::Pause(pause) => match &pause.target {
                PauseTarget::Route(route) if matches!(&**route, "a" | "b") => {
                    self.pauses.insert(route.clone(), pause.clone());
                    Outcome::Paused
                }
                PauseTarget::Timer(id) if self.park(*id, Some(pause.reason().into()), now) => Outcome::Paused,
                _ => Outcome::NotFound,
            },
            Op::Resume(PauseTarget::Route(route)) if self.is_paused(route, now) => {
                self.pauses.remove(route);
                Outcome::Deleted
            }
            Op::Resume(PauseTarget::Timer(id)) if self.park(*id, None, now) => Outcome::Deleted,
            Op::Resume(_) => Outcome::NotFound,
        }
    }

    fn is_paused(&self, route: &str, now: DueTime) -> bool {
        self.pauses.get(route).is_some_and(|pause| holds(pause, now))
    }

    /// Returns the pauses that have not ended.
    pub fn held(&self, now: DueTime) -> impl Iterator<Item = &Pause> {
        self.pauses.values().filter(move |pause| holds(pause, now))
    }

    /// Parks a timer, or without a reason one that was parked here becomes pending.
    fn park(&mut self, id: DurableId, reason: Option<Arc<str>>, now: DueTime) -> bool {
        let is_it = |row: &&mut Row| reason.is_some() || is_paused(row);
        let Some(row) = self.rows.get_mut(&id).filter(is_it) else { return false };
        row.parked = reason;
        if !row.is_claimed {
            row.record.progress.due = row.record.progress.due.max(now);
        }
        true
    }

    fn restore(&mut self, Found { record, state }: &Found, now: DueTime) -> Placed {
        let mut new = Record::clone(record);
        let due = new.progress.due.max(now);
        let exists = Placed::Exists(new.id);
        if let State::Dead { reason, since } = state {
            let letter = Letter { record: new, reason: Arc::clone(reason), since: *since, errors: vec![] };
            let is_there = self.letters.contains_key(&letter.record.id);
            self.letters.entry(letter.record.id).or_insert(letter);
            return if is_there { exists } else { Placed::Created { due } };
        }
        if self.rows.contains_key(&new.id) {
            return exists;
        }
        new.progress.due = due;
        let parked = if let State::Parked { reason } = state { Some(reason.clone()) } else { None };
        let created = DueTime::MIN;
        let errors = vec![];
        self.rows.insert(new.id, Row { record: new, is_claimed: false, is_alone: false, parked, created, errors });
        Placed::Created { due }
    }

    pub fn find_key(&self, route: &str, key: &str) -> Option<DurableId> {
        let has_it = |row: &&Row| *row.record.route == *route && row.record.key.as_deref() == Some(key);
        self.rows.values().find(has_it).map(|row| row.record.id)
    }

    /// Returns the timer for which the key of a record is kept, after the end of those whose time is over.
    fn kept_key(&mut self, record: &Record, now: DueTime) -> Option<DurableId> {
        let key = (record.route.clone(), record.key.clone()?);
        if self.kept.get(&key).is_some_and(|(_, until)| *until <= now) {
            self.kept.remove(&key);
        }
        self.kept.get(&key).map(|(id, _)| *id)
    }

    fn put(&mut self, NewTimer { record, on_key }: &NewTimer, now: DueTime) -> Placed {
        let mut new = Record::clone(record);
        new.progress.due = new.progress.due.max(now);
        let due = new.progress.due;
        if self.rows.contains_key(&new.id) {
            return Placed::Exists(new.id);
        }
        if let Some(kept) = self.kept_key(&new, now) {
            // A repeated request does not begin anew.
            if *on_key == OnKey::KeepExisting || kept == new.id {
                return Placed::Exists(kept);
            }
            self.kept.remove(&(new.route.clone(), new.key.clone().unwrap()));
        }
        let old = new.key.as_ref().and_then(|key| self.find_key(&new.route, key));
        let placed = match (old, on_key) {
            (None, _) => Placed::Created { due },
            (Some(old), OnKey::KeepExisting) => return Placed::Exists(old),
            (Some(old), OnKey::Replace) => {
                let in_progress = self.rows.remove(&old).unwrap().is_claimed;
                Placed::Replaced { old, in_progress, due }
            }
        };
        let (created, errors) = (now, vec![]);
        self.rows
            .insert(new.id, Row { record: new, is_claimed: false, is_alone: false, parked: None, created, errors });
        placed
    }

    fn claim(&mut self, claim: &Claim, now: DueTime) -> Outcome {
        let (mut records, mut not_due, mut left) = (vec![], vec![], vec![]);
        for id in &claim.ids {
            let is_paused = |row: &Row| self.is_paused(&row.record.route, now);
            if self.rows.get(id).is_none_or(|row| row.is_claimed || row.parked.is_some() || is_paused(row)) {
                continue;
            }
            let Some(row) = self.rows.get_mut(id) else { continue };
            let Some(served) = served(&self.serves, &row.record) else { continue };
            if row.record.progress.due > now {
                not_due.push((*id, row.record.progress.due));
                continue;
            }
            if is_suspect(&row.record, served.max_attempts) != (claim.suspects != Suspects::Left) {
                left.push(*id);
                continue;
            }
            row.is_claimed = true;
            row.is_alone = claim.suspects == Suspects::Marked;
            row.record.progress.attempt += 1;
            row.record.progress.used += 1;
            records.push(Arc::new(row.record.clone()));
        }
        Outcome::Claimed { records, not_due, damaged: vec![], left, locked: vec![] }
    }

    fn end(&mut self, delivery: Delivery, next: &Next, now: DueTime) -> Option<Outcome> {
        let row = self.rows.get_mut(&delivery.id).filter(|row| row.is_claimed && row.record.delivery() == delivery)?;
        let (mut then, mut gone) = (None, false);
        let (next, note) = next.split();
        if let Some(Note { took_ms, outcome, error, result }) = note {
            let (at_ms, attempt) = (now.as_millis(), delivery.attempt);
            let error =
                error.as_ref().map(|reason| format!(r#"{{"at_ms":{at_ms},"attempt":{attempt},"reason":{reason:?}}}"#));
            row.errors.extend(error);
            row.errors.drain(..row.errors.len().saturating_sub(20));
            if let Some(outcome) = outcome {
                let (is_dead, errors) = (*outcome == "dead", row.errors.join(","));
                let result = result.as_ref().map_or("null".to_owned(), |result| format!("{result:?}"));
                let end = format!(
                    r#"{{"at_ms":{at_ms},"took_ms":{took_ms},"is_dead":{is_dead},"errors":[{errors}],"result":{result}}}"#
                );
                self.past.insert((delivery.id, delivery.repetition), finished(&row.record, now, &end));
            }
        }
        match next {
            Next::Delete => gone = true,
            Next::KeepKey(time) => {
                gone = true;
                if let Some(key) = &row.record.key {
                    self.kept.insert((row.record.route.clone(), key.clone()), (delivery.id, now.saturating_add(*time)));
                }
            }
            Next::Again(again) => then = Some(*again),
            Next::Dead { reason, then: again } => {
                let errors = row.errors.clone();
                let letter = Letter { record: row.record.clone(), reason: reason.clone(), since: now, errors };
                self.letters.insert(delivery.id, letter);
                (then, gone) = (*again, again.is_none());
            }
            Next::Park { reason } => {
                row.parked.get_or_insert(reason.clone());
                row.record.progress.used -= 1;
            }
            Next::GiveBack | Next::Snooze(_) | Next::Release | Next::Noted(..) => {
                let progress = &mut row.record.progress;
                progress.used -= u32::from(*next != Next::Release);
                let wish = if let Next::Snooze(wish) = next { *wish } else { progress.due };
                progress.due = wish.max(now);
            }
        }
        (row.is_claimed, row.is_alone) = (false, false);
        if gone {
            self.rows.remove(&delivery.id);
            return Some(Outcome::Ended { due: None });
        }
        if let Some(Again { due, nominal, repetition, returned }) = then {
            let progress = &mut row.record.progress;
            if repetition != progress.repetition {
                (progress.attempt, progress.used) = (0, 0);
                row.errors.clear();
            } else {
                progress.used = progress.used.saturating_sub(returned);
            }
            (progress.due, progress.nominal, progress.repetition) = (due.max(now), nominal, repetition);
        }
        Some(Outcome::Ended { due: (!matches!(next, Next::Park { .. })).then_some(row.record.progress.due) })
    }

    fn requeue(&mut self, id: DurableId, now: DueTime) -> Outcome {
        let Some(letter) = self.letters.get(&id) else { return Outcome::NotFound };
        if self.rows.contains_key(&id) {
            return Outcome::StillPending;
        }
        let (mut record, errors) = (letter.record.clone(), letter.errors.clone());
        match self.kept_key(&record, now) {
            Some(kept) if kept == id => _ = self.kept.remove(&(record.route.clone(), record.key.clone().unwrap())),
            Some(kept) => return Outcome::KeyInUse(kept),
            None => {}
        }
        if let Some(other) = record.key.as_ref().and_then(|key| self.find_key(&record.route, key)) {
            return Outcome::KeyInUse(other);
        }
        record.progress.used = 0;
        record.progress.due = now;
        // The series goes on without it.
        record.repeat = None;
        self.letters.remove(&id);
        self.rows.insert(id, Row { record, is_claimed: false, is_alone: false, parked: None, created: now, errors });
        Outcome::Moved(now)
    }

    /// Joins as the next process, and returns the rows to blame.
    pub fn restart(&mut self, serves: Arc<Filter>, now: DueTime) -> Vec<Arc<Record>> {
        for row in self.rows.values_mut() {
            row.is_claimed = row.is_alone;
            if row.parked.is_some() && !is_paused(row) && served(&serves, &row.record).is_some() {
                row.parked = None;
                row.record.progress.due = row.record.progress.due.max(now);
            }
        }
        self.serves = serves;
        self.rows.values().filter(|row| row.is_alone).map(|row| Arc::new(row.record.clone())).collect()
    }

    /// Returns all timers that a look finds with all of its rests, in order.
    pub fn look(&self, look: &Look, now: DueTime) -> Vec<Hint> {
        let pending = self.rows.values().filter(|row| !row.is_claimed && row.parked.is_none());
        let pending = pending.filter(|row| !self.is_paused(&row.record.route, now));
        let hints = pending.filter_map(|row| {
            let served = served(&look.filter, &row.record)?;
            Some(hint(&row.record, served.index, served.max_attempts))
        });
        let at = |hint: &Hint| Position { due: hint.due, id: hint.id };
        let mut hints: Vec<_> =
            hints.filter(|hint| hint.due <= look.until && look.after.is_none_or(|after| at(hint) > after)).collect();
        hints.sort_by_key(at);
        hints
    }

    fn state(row: &Row) -> State {
        match &row.parked {
            Some(reason) => State::Parked { reason: reason.clone() },
            None if row.is_claimed => State::InFlight,
            None => State::Pending,
        }
    }

    pub fn get(&self, id: DurableId) -> Option<Found> {
        let row = self.rows.get(&id).map(|row| Found { record: Arc::new(row.record.clone()), state: Self::state(row) });
        row.or_else(|| self.letters.get(&id).map(found_letter))
    }

    /// Returns all timers that a query finds, in order.
    pub fn list(&self, query: &Query) -> Vec<Found> {
        let rows = self.rows.values().filter(|row| row.parked.is_some() == (query.part == Part::Parked));
        let rows =
            rows.map(|row| (Found { record: Arc::new(row.record.clone()), state: Self::state(row) }, row.created));
        let mut found: Vec<_> = match query.part {
            Part::Dead => self.letters.values().map(|letter| (found_letter(letter), letter.since)).collect(),
            Part::Pending | Part::Parked => rows.collect(),
            Part::Past => self.past.values().map(|end| (end.clone(), end.record.progress.due)).collect(),
        };
        found.retain(|(Found { record, .. }, written)| {
            (query.from..=query.until).contains(&record.progress.due)
                && query.id.is_none_or(|id| id == record.id)
                && query.after.is_none_or(|after| position(record) > after)
                && query.route.as_ref().is_none_or(|route| *route == record.route)
                && query.key.as_ref().is_none_or(|key| Some(key) == record.key.as_ref())
                && query.message_type.as_ref().is_none_or(|message_type| *message_type == record.message_type)
                && query.written_until.is_none_or(|until| *written <= until)
                && query.key_prefix.as_ref().is_none_or(|prefix| {
                    record.key.as_ref().is_some_and(|key| key.as_bytes().starts_with(prefix.as_bytes()))
                })
                && query
                    .header
                    .as_ref()
                    .is_none_or(|(wanted, value)| record.headers.iter().any(|header| header == (&**wanted, &**value)))
        });
        let mut found: Vec<_> = found.into_iter().map(|(found, _)| found).collect();
        found.sort_by_key(|found| position(&found.record));
        found
    }

    pub fn counts(&self, limit: Option<u64>) -> Counts {
        let parked = self.rows.values().filter(|row| row.parked.is_some()).count();
        let numbers = [self.rows.len() - parked, parked, self.letters.len()].map(|number| number as u64);
        let [pending, parked, dead] = numbers.map(|number| number.min(limit.unwrap_or(u64::MAX)));
        Counts {
            pending,
            parked,
            dead,
            finished: 0,
            is_limited: [pending, parked, dead].contains(&limit.unwrap_or(u64::MAX)),
        }
    }
}

pub fn holds(pause: &Pause, now: DueTime) -> bool {
    pause.until.is_none_or(|until| until > now)
}

fn is_paused(row: &Row) -> bool {
    row.parked.as_ref().is_some_and(|reason| reason.starts_with("paused"))
}

fn found_letter(letter: &Letter) -> Found {
    let state = State::Dead { reason: letter.reason.clone(), since: letter.since };
    Found { record: Arc::new(letter.record.clone()), state }
}

/// Returns the row of the past after the end of a delivery.
fn finished(record: &Record, now: DueTime, end: &str) -> Found {
    let record = Record {
        progress: Progress { due: now, used: 0, ..record.progress },
        repeat: None,
        keep_key: None,
        max_attempts: None,
        retry: None,
        payload_codec: None,
        payload: [].into(),
        ..record.clone()
    };
    Found { record: Arc::new(record), state: State::Finished(Arc::new(finished_from_json(end).unwrap())) }
}

fn hint(record: &Record, route: u16, budget: u32) -> Hint {
    let progress = &record.progress;
    let is_suspect = is_suspect(record, budget);
    Hint { id: record.id, due: progress.due, nominal: progress.nominal, route, is_suspect }
}
