//! Random changes and queries, compared with the [`Model`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{
    Again, Claim, Delivery, Filter, Found, Hint, Look, Looked, NO_END, Next, Note, OnKey, Op, Outcome, Part, Position,
    Progress, Query, Reads, Record, Share, State, Store, Suspects,
};
use actix_timers_durable::{
    DueTime, DurableId, Headers, Missed, Pause, PauseTarget, RepeatMode, RetryPolicy, StoredRepeat,
};

use super::model::{Model, Row, holds, is_suspect};
use super::{BUDGET, NEWEST, START, Subject, World, at, new, record, serving};
use crate::Random;

const STEPS: u64 = 400;

/// Times lie within this many ms, so that many are equal, passed or in reverse order.
const SPAN: u64 = 60;

const KEYS: [&str; 9] = ["k0", "k1", "k%", "k_x", "k\\", "kö", "kÖ", "", "ko\u{308}"];
const PREFIXES: [&str; 8] = ["", "k", "k%", "k_", "k\\", "kö", "kO", "k\0"];
const HEADERS: [(&str, &str); 5] =
    [("tenant", "8\"é"), ("ten.ant", "8"), ("a.\"b'$\\#", "' OR 1=1 --"), ("ten.ant", ""), ("0", "8")];

struct Run<'a, S: Subject> {
    world: World<'a, S>,
    model: Model,
    random: Random,
    /// All ids, also of timers that are gone.
    ids: Vec<DurableId>,
    /// All deliveries, also those that ended.
    deliveries: Vec<Delivery>,
    /// The requests with keys, and the last restored row, which may come again.
    requested: Vec<Record>,
    restored: Option<Arc<Found>>,
    /// The timers whose keys were kept. When that is over, stores differ in whether they know them.
    were_kept: BTreeSet<DurableId>,
}

/// Changes and queries have the outcomes of the model.
pub fn agrees_with_the_model<S: Subject>(subject: &mut S) {
    for round in 0..S::ROUNDS {
        let mut run = Run::new(subject, round);
        for step in 0..STEPS {
            run.change(&format!("round {round}, step {step}"));
            if step % 5 == 0 {
                run.query(&format!("round {round}, step {step}"));
            }
            if run.random.below(60) == 0 {
                let Some(next) = run.restart() else { break };
                run = next;
            }
        }
    }
}

/// A reader finds the same as its store, if there is one.
pub fn a_reader_agrees_with_its_store<S: Subject>(subject: &mut S) {
    let mut run = Run::new(subject, S::ROUNDS);
    let Some(mut reader) = run.world.store.reader().unwrap() else { return };
    for step in 0..STEPS {
        run.change(&format!("step {step}"));
        compare_reads(&mut *reader, &run.model, &mut run.random, &run.ids, &format!("step {step}"));
    }
}

impl<'a, S: Subject> Run<'a, S> {
    fn new(subject: &'a mut S, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let serves = some_types(&mut random);
        Self {
            world: World::serving(subject, Arc::clone(&serves)),
            model: Model { serves, ..Model::default() },
            random,
            ids: vec![],
            deliveries: vec![],
            requested: vec![],
            restored: None,
            were_kept: BTreeSet::new(),
        }
    }

    /// Restarts with the claim of a suspect that has not ended.
    fn restart(mut self) -> Option<Self> {
        let mut suspect = record(self.random.below(1 << 20), 0);
        suspect.progress.used = BUDGET;
        let ids = vec![suspect.id];
        let suspects = if self.random.below(2) == 0 { Suspects::Marked } else { Suspects::Unmarked };
        let row = Op::Restore(Arc::new(Found { record: Arc::new(suspect), state: State::Pending }));
        for op in [row, Op::Claim(Claim { ids, suspects })] {
            self.apply(&[op], "before the restart");
        }
        let serves = some_types(&mut self.random);
        let (mut world, beat) = self.world.restart(Arc::clone(&serves))?;
        let mut model = self.model;
        let mut blamed = beat.blamed;
        blamed.sort_by_key(|record| record.id);
        assert_eq!(blamed, model.restart(serves, world.now), "the rows to blame");
        for record in blamed {
            assert_eq!(world.store.get(record.id).unwrap(), model.get(record.id), "it is claimed by this process");
        }
        // Of a shared store without ends and reasons.
        let held = beat.paused.iter().filter(|pause| holds(pause, world.now));
        let routes: BTreeSet<_> = held.filter_map(|pause| pause.target.row().ok()).collect();
        assert!(routes.into_iter().eq(model.held(world.now).filter_map(|pause| pause.target.row().ok())), "the pauses");
        Some(Self { world, model, ..self })
    }

    fn change(&mut self, context: &str) {
        if self.random.below(3) == 0 {
            let kept = self.model.kept.values().map(|(_, until)| until.as_millis() - START);
            let end = kept.clone().next().filter(|_| self.random.below(4) == 0);
            let offset = end.unwrap_or_else(|| self.random.below(SPAN));
            // A store may delete keys whose time is over at any time: the clock does not go back before it.
            let now = self.world.now.as_millis() - START;
            if !kept.clone().any(|until| (offset + 1..=now).contains(&until)) {
                self.world.set(offset as i64);
            }
        }
        // Of the changes of one call only those of the same timer have an order.
        let ops: Vec<_> = match self.random.below(2) {
            0 => vec![self.any_op()],
            _ => (0..self.random.spread(5)).map(|_| self.grouped_op()).collect(),
        };
        self.apply(&ops, context);
    }

    fn apply(&mut self, ops: &[Op], context: &str) {
        let outcomes = self.world.try_apply(ops);
        for (op, outcome) in ops.iter().zip(outcomes) {
            let expected = self.model.apply(op, self.world.now);
            self.were_kept.extend(self.model.kept.values().map(|(id, _)| *id));
            if let Outcome::Claimed { records, .. } = &expected {
                self.deliveries.extend(records.iter().map(|record| record.delivery()));
            }
            assert_eq!(outcome.unwrap(), expected, "{context}: {op:?} at {}", self.world.now);
        }
    }

    fn any_op(&mut self) -> Op {
        match self.random.below(20) {
            0 | 12..15 if self.has_few() => {
                let count = self.random.below(4);
                let timers = (0..count).map(|_| {
                    let on_key = if self.random.below(2) == 0 { OnKey::KeepExisting } else { OnKey::Replace };
                    new(&self.request(), on_key)
                });
                Op::Put(timers.collect())
            }
            1 | 15 => Op::Requeue(self.letter()),
            2 => Op::Discard(self.letter()),
            3 => Op::DiscardOlder { past_of: None, than: self.age(), limit: self.random.below(3) as usize },
            4 => self.claim_suspect(),
            5 | 16..19 => {
                let delivery = self.delivery();
                let next = Next::Dead { reason: "failed".into(), then: self.maybe_next(delivery.repetition) };
                Op::End(delivery, self.noted(next))
            }
            8 => Op::DiscardOlder { past_of: Some("a".into()), than: self.time(), limit: 1000 },
            6 => {
                let (pause, until) = (Pause::route(self.random.choose(&["a", "b", "c"])), self.time());
                let pause = if self.random.below(2) == 0 { pause.until(until) } else { pause };
                Op::Pause(if self.random.below(2) == 0 { pause.by("ops").because("no mail") } else { pause })
            }
            7 => Op::Resume(PauseTarget::Route(self.random.choose(&["a", "b"]).into())),
            9 if self.has_few() => Op::Restore(self.restored()),
            _ => self.grouped_op(),
        }
    }

    /// Returns a change that depends on no other timer.
    fn grouped_op(&mut self) -> Op {
        match self.random.below(10) {
            8 => Op::Pause(Pause::timer(self.delivery().id)),
            9 => Op::Resume(PauseTarget::Timer(self.id())),
            0 if self.has_few() => Op::Put(vec![new(&self.record(), OnKey::KeepExisting)]),
            0..4 => {
                let mut ids: Vec<_> = (0..self.random.below(6)).map(|_| self.id()).collect();
                let mut seen = BTreeSet::new();
                ids.retain(|id| seen.insert(*id));
                Op::Claim(Claim { ids, suspects: Suspects::Left })
            }
            4 => Op::Cancel(self.id()),
            5 => Op::Move(self.id(), self.time()),
            _ => {
                let delivery = self.delivery();
                let row = self.model.rows.get(&delivery.id);
                let has_key = row.is_some_and(|row| row.record.key.is_some());
                let next = match self.random.below(9) {
                    0..9 if has_key && (self.model.letters.contains_key(&delivery.id) || self.random.below(3) == 0) => {
                        let keep = Next::KeepKey(Duration::from_millis(self.random.below(3 * SPAN)));
                        self.noted(keep)
                    }
                    0 | 1 => self.noted(Next::Delete),
                    2 | 6 | 7 => {
                        let again = Next::Again(self.again());
                        self.noted(again)
                    }
                    3 => Next::GiveBack,
                    4 => Next::Release,
                    5 => Next::Snooze(self.time()),
                    _ => Next::Park { reason: "no decoder".into() },
                };
                Op::End(delivery, next)
            }
        }
    }

    /// Of few timers more meet several changes.
    fn has_few(&self) -> bool {
        self.model.rows.len() < 16
    }

    /// Returns a record with some key, or one that was put before: rather one whose key is kept.
    fn request(&mut self) -> Record {
        let held = |(id, until): &(DurableId, DueTime)| (*until > self.world.now).then_some(*id);
        let kept: Vec<_> = self.model.kept.values().filter_map(held).collect();
        let is_kept = |record: &&Record| kept.contains(&record.id);
        let is_known = |record: &&Record| is_kept(record) || !self.were_kept.contains(&record.id);
        let recent = self.requested.iter().rev().filter(is_known).take(20);
        let again = recent.clone().find(is_kept).or(recent.clone().nth(self.random.spread(4) as usize));
        if let Some(again) = again.filter(|_| self.random.below(3) == 0) {
            return again.clone();
        }
        let mut record = self.record();
        let kept = self.model.kept.keys().next().filter(|_| self.random.below(2) == 0);
        let key = kept.map_or_else(|| self.random.choose(&KEYS).into(), |(_, key)| Arc::clone(key));
        record.key = (self.random.below(4) > 0).then_some(key);
        let keep = self.random.below(SPAN);
        record.keep_key = record.key.as_ref().filter(|_| keep.is_multiple_of(2)).map(|_| Duration::from_millis(keep));
        self.requested.push(record.clone());
        record
    }

    /// Returns a row of another store, or the last one if it is still there.
    fn restored(&mut self) -> Arc<Found> {
        let is_there = |found: &mut Arc<Found>| match &found.state {
            State::Dead { .. } => self.model.letters.contains_key(&found.record.id),
            _ => self.model.rows.contains_key(&found.record.id),
        };
        if let Some(again) = self.restored.take_if(is_there) {
            return again;
        }
        let mut record = self.record();
        record.key = Some(format!("restored {}", self.ids.len()).into());
        let (due, nominal, attempt) = (self.time(), self.time(), self.random.below(14) as u32);
        let (repetition, used) = (1 + self.random.below(3), self.random.below(u64::from(attempt) + 1) as u32);
        record.progress = Progress { due, nominal, repetition, attempt, used };
        let state = match self.random.below(4) {
            0 => State::Pending,
            1 => State::InFlight,
            2 => State::Parked { reason: "no decoder".into() },
            _ => {
                record.progress.due = due.max(self.world.now);
                State::Dead { reason: "failed".into(), since: self.time() }
            }
        };
        let found = Arc::new(Found { record: Arc::new(record), state });
        self.restored = Some(Arc::clone(&found));
        found
    }

    fn record(&mut self) -> Record {
        let random = &mut self.random;
        let due = random.below(SPAN);
        let mut record = record(random.below(1 << 20), due as i64);
        record.id =
            DurableId::from_parts(at(due as i64), random.below(4), random.below(1 << 30) << 34 | random.below(1 << 30));
        record.route = ["a", "b", "c"][random.below(3) as usize].into();
        record.message_type = if random.below(8) == 0 { "Invoice" } else { "Order" }.into();
        record.message_version = 1 + random.below(u64::from(NEWEST) + 1) as u32;
        record.payload = vec![7; random.spread(13) as usize].into();
        if random.below(3) == 0 {
            let budget = if random.below(4) == 0 { NO_END } else { 1 + random.below(5) as u32 };
            record.max_attempts = Some(budget);
            record.retry = Some(RetryPolicy::default().max_attempts(budget).timeout(Duration::from_millis(7)));
            record.headers = Headers::of([random.choose(&HEADERS), random.choose(&HEADERS)]).unwrap();
            record.payload_codec = Some("codec".into());
        }
        if random.below(3) == 0 {
            let second = Duration::from_secs(1);
            let (mode, jitter) = match random.below(3) {
                0 => (RepeatMode::FixedRate { period: second, missed: Missed::Skip }, None),
                1 => (RepeatMode::FixedDelay { delay: second, spread: true }, None),
                _ => (RepeatMode::FixedDelay { delay: second, spread: false }, Some(second / 2)),
            };
            record.repeat = Some(StoredRepeat { mode, times: Some(9), until: Some(at(99)), jitter });
        }
        self.ids.push(record.id);
        record
    }

    /// Returns an id, mostly that of a row, else rather one of the last.
    fn id(&mut self) -> DurableId {
        let row = self.random.spread(8) as usize % self.model.rows.len().max(1);
        let back = self.random.spread(8) as usize;
        let row = self.model.rows.keys().nth_back(row).filter(|_| self.random.below(3) > 0);
        let any = || self.ids.iter().rev().nth(back).or(self.ids.last());
        row.or_else(any).copied().unwrap_or(DurableId::from_parts(at(0), 0, 0))
    }

    /// Returns an id, mostly that of a dead letter.
    fn letter(&mut self) -> DurableId {
        let is_kept =
            |(id, until): &&(DurableId, DueTime)| *until > self.world.now && self.model.letters.contains_key(id);
        let kept = self.model.kept.values().find(is_kept);
        if let Some((id, _)) = kept.filter(|_| self.random.below(2) == 0) {
            return *id;
        }
        let letter = self.random.below(self.model.letters.len().max(1) as u64) as usize;
        let letter = self.model.letters.keys().nth(letter).filter(|_| self.random.below(4) > 0).copied();
        letter.unwrap_or_else(|| self.id())
    }

    /// Claims mostly a row that has used up its attempts.
    fn claim_suspect(&mut self) -> Op {
        let now = self.world.now;
        let is_free = |row: &&Row| !row.is_claimed && row.parked.is_none() && row.record.progress.due <= now;
        let is_it = |row: &&Row| is_free(row) && is_suspect(&row.record, BUDGET) && *row.record.route != *"c";
        let suspects: Vec<_> = self.model.rows.values().filter(is_it).map(|row| row.record.id).collect();
        let is_any = suspects.is_empty() || self.random.below(3) == 0;
        let id = if is_any { self.id() } else { self.random.choose(&suspects) };
        let suspects = if self.random.below(2) == 0 { Suspects::Marked } else { Suspects::Unmarked };
        Op::Claim(Claim { ids: vec![id], suspects })
    }

    /// Returns a delivery, mostly one that has not ended.
    fn delivery(&mut self) -> Delivery {
        let claimed: Vec<_> =
            self.model.rows.values().filter(|row| row.is_claimed).map(|row| row.record.delivery()).collect();
        if !claimed.is_empty() {
            let Delivery { id, repetition, attempt } = self.random.choose(&claimed);
            match self.random.below(12) {
                0 => return Delivery { id, repetition, attempt: attempt - 1 },
                1 => return Delivery { id, repetition: repetition + 1, attempt },
                2 => {}
                _ => return Delivery { id, repetition, attempt },
            }
        }
        let back = self.random.spread(5) as usize;
        let none = Delivery { id: DurableId::from_parts(at(0), 0, 0), repetition: 1, attempt: 1 };
        self.deliveries.iter().rev().nth(back).copied().unwrap_or(none)
    }

    fn time(&mut self) -> DueTime {
        at(self.random.below(SPAN) as i64)
    }

    /// Returns a time, perhaps that of a dead letter.
    fn age(&mut self) -> DueTime {
        let time = self.time();
        let letter = self.model.letters.values().next().filter(|_| self.random.below(2) == 0);
        letter.map_or(time, |letter| letter.since)
    }

    fn again(&mut self) -> Again {
        Again {
            due: self.time(),
            nominal: self.time(),
            repetition: 1 + self.random.below(3),
            returned: self.random.below(3) as u32,
        }
    }

    /// Returns some later repetition, or none.
    fn maybe_next(&mut self, repetition: u64) -> Option<Again> {
        let later = repetition + 1 + self.random.below(3);
        (self.random.below(2) == 0).then(|| Again { repetition: later, ..self.again() })
    }

    /// Adds a note to some ends.
    fn noted(&mut self, next: Next) -> Next {
        let random = &mut self.random;
        if random.below(3) == 0 {
            return next;
        }
        let (outcome, may_fail) = match next {
            Next::Dead { .. } => (Some("dead"), true),
            Next::Again(_) if random.below(2) == 0 => (None, true),
            _ => (Some("complete"), false),
        };
        let error = may_fail.then(|| format!("error {}", random.below(99)).into());
        let result = (random.below(2) == 0).then(|| "fine".into());
        Next::Noted(Box::new(next), Box::new(Note { took_ms: random.below(99), outcome, error, result }))
    }

    fn query(&mut self, context: &str) {
        let (store, random) = (&mut self.world.store, &mut self.random);
        let after = (random.below(2) == 0).then(|| some_position(random, &self.ids));
        let routes: &[&str] = if random.below(2) == 0 { &["a", "b"] } else { &["b"] };
        let until = at(random.below(SPAN) as i64);
        let (nodes, others_until) = (1 + random.below(3) as u16, at(random.below(SPAN) as i64));
        let share = Share { places: vec![(random.below(nodes.into()) as u16, nodes); 11 + random.below(2) as usize] };
        let is_wanted = |hint: &Hint| share.contains(hint.id, hint.route) || hint.due <= others_until;
        let wanted = (random.below(2) == 0).then(|| (share.clone(), others_until));
        let (filter, limit) = (serving(routes), 1 + random.spread(7) as usize);
        let mut look = Look { after, until, filter, limit, share: wanted };
        let mut found = Vec::new();
        loop {
            let Looked { hints, rest, .. } = store.look(&look, self.world.now)().unwrap();
            assert!(hints.len() <= 2 * look.limit, "{context}: {look:?} {hints:?}");
            found.extend(hints);
            let Some(rest) = rest else { break };
            assert!(look.after < Some(rest), "{context}: {look:?} {rest:?}");
            look.after = Some(rest);
        }
        let mut all = self.model.look(&Look { after, ..look.clone() }, self.world.now);
        if look.share.is_some() {
            // It may return more.
            assert!(found.iter().all(|hint| all.contains(hint)), "{context}: {look:?} {found:?}");
            [&mut found, &mut all].into_iter().for_each(|hints| hints.retain(is_wanted));
        }
        assert_eq!(found, all, "{context}: {look:?}");
        let mut pauses = store.pauses().unwrap();
        pauses.retain(|pause| holds(pause, self.world.now));
        assert!(pauses.iter().eq(self.model.held(self.world.now)), "{context}: {pauses:?}");
        compare_reads(store, &self.model, random, &self.ids, context);
    }
}

/// Returns the types that a process serves: it may know the route `a`, and deliver nothing of it.
fn some_types(random: &mut Random) -> Arc<Filter> {
    let mut types = serving(&["a", "b"]);
    if random.below(3) == 0 {
        Arc::make_mut(&mut types).served[0].version = 0;
    }
    types
}

fn some_position(random: &mut Random, ids: &[DurableId]) -> Position {
    let due = at(random.below(SPAN) as i64);
    let id = if ids.is_empty() { DurableId::from_parts(due, 0, 0) } else { ids[random.index_of(ids)] };
    // That of a timer that was not moved, or of one that was.
    Position { due: if random.below(2) == 0 { id.first_due() } else { due }, id }
}

fn compare_reads<R: Reads + ?Sized>(
    store: &mut R,
    model: &Model,
    random: &mut Random,
    ids: &[DurableId],
    context: &str,
) {
    if !ids.is_empty() {
        let id = ids[random.index_of(ids)];
        assert_eq!(store.get(id).unwrap(), model.get(id), "{context}: {id}");
    }
    let kept = model.kept.keys().find(|(route, _)| &**route == "a").map(|(_, key)| &**key);
    for key in kept.into_iter().chain([random.choose(&KEYS)]) {
        assert_eq!(store.find_key("a", key).unwrap(), model.find_key("a", key), "{context}: {key}");
    }
    for limit in [None, Some(1 + random.below(5))] {
        assert_eq!(store.counts(limit).unwrap(), model.counts(limit), "{context}: {limit:?}");
    }
    let (one, other) = (at(random.below(SPAN) as i64), at(random.below(SPAN) as i64));
    let mut query = Query {
        part: [Part::Pending, Part::Parked, Part::Dead, Part::Past][random.below(4) as usize],
        route: (random.below(3) == 0).then(|| "a".into()),
        message_type: (random.below(4) == 0).then(|| random.choose(&["Order", "Invoice"]).into()),
        key: (random.below(4) == 0).then(|| random.choose(&KEYS).into()),
        key_prefix: (random.below(3) == 0).then(|| random.choose(&PREFIXES).into()),
        header: (random.below(4) == 0)
            .then(|| if random.below(8) == 0 { ("te\0ant", "8") } else { random.choose(&HEADERS) })
            .map(|(name, value)| (name.into(), value.into())),
        written_until: (random.below(3) == 0).then(|| at(random.below(SPAN) as i64)),
        id: None,
        from: if random.below(2) == 0 { DueTime::MIN } else { one.min(other) },
        until: if random.below(2) == 0 { DueTime::MAX } else { one.max(other) },
        after: (random.below(2) == 0).then(|| some_position(random, ids)),
        limit: 1 + random.spread(6) as usize,
        is_count: false,
    };
    if random.below(4) == 0 {
        query = Query { limit: query.limit, ..Query::of(query.part) };
    }
    if query.part == Part::Past && !ids.is_empty() && random.below(3) == 0 {
        query.id = Some(ids[random.index_of(ids)]);
    }
    let (expected, first) = (model.list(&query), query.clone());
    let mut found = vec![];
    loop {
        let page = store.list(&query).unwrap();
        let is_in_bounds = page.found.len() <= query.limit || query.part == Part::Past;
        assert!(is_in_bounds && page.damaged == 0, "{context}: {query:?}");
        found.extend(page.found);
        assert!(page.next.is_none() || page.next > query.after, "{context}: {query:?} makes no progress");
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found, expected, "{context}: {first:?}");
    let counted = store.list(&Query { limit: 10_000, is_count: true, ..first.clone() }).unwrap();
    assert_eq!((counted.counted, counted.found.len()), (expected.len(), 0), "{context}: {first:?}");
}
