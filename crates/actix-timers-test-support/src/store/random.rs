//! Random changes and queries, compared with the [`Model`].

use std::time::Duration;

use actix_timers_durable::store::OnKey;
use actix_timers_durable::store::{
    Again, Claim, Delivery, Look, Next, Note, Op, Part, Position, Query, Reads, Record, Store, Suspects,
};
use actix_timers_durable::{
    DueTime, DurableId, Headers, Missed, Pause, PauseTarget, RepeatMode, RetryPolicy, StoredRepeat,
};

use super::model::Model;
use super::{NEWEST, Subject, World, at, new, record, serving};
use crate::Random;

const ROUNDS: u64 = 12;
const STEPS: u64 = 400;

/// Times lie within this many ms, so that many are equal, passed or in reverse order.
const SPAN: u64 = 400;

const KEYS: [&str; 7] = ["k0", "k1", "k%", "k_x", "k\\", "kö", "kÖ"];
const PREFIXES: [&str; 8] = ["", "k", "k%", "k_", "k\\", "kö", "kO", "k\0"];
const HEADERS: [(&str, &str); 4] = [("tenant", "8\"é"), ("ten.ant", "8"), ("a\"b'\\", "' OR 1=1 --"), ("ten.ant", "")];

struct Run<'a, S: Subject> {
    world: World<'a, S>,
    model: Model,
    random: Random,
    /// All ids, also of timers that are gone.
    ids: Vec<DurableId>,
    /// All deliveries, also those that ended.
    deliveries: Vec<Delivery>,
}

/// Changes and queries have the outcomes of the model.
pub fn agrees_with_the_model<S: Subject>(subject: &mut S) {
    for round in 0..ROUNDS {
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
    let mut run = Run::new(subject, ROUNDS);
    let Some(mut reader) = run.world.store.reader().unwrap() else { return };
    for step in 0..STEPS {
        run.change(&format!("step {step}"));
        compare_reads(&mut *reader, &run.model, &mut run.random, &run.ids, &format!("step {step}"));
    }
}

impl<'a, S: Subject> Run<'a, S> {
    fn new(subject: &'a mut S, seed: u64) -> Self {
        let (world, random) = (World::new(subject), Random::new(seed));
        Self { world, model: Model::default(), random, ids: vec![], deliveries: vec![] }
    }

    fn restart(self) -> Option<Self> {
        let (world, beat) = self.world.restart()?;
        let mut model = self.model;
        let mut blamed = beat.blamed;
        blamed.sort_by_key(|record| record.id);
        assert_eq!(blamed, model.restart(&serving(&["a", "b"]), world.now), "the rows to blame");
        Some(Self { world, model, ..self })
    }

    fn change(&mut self, context: &str) {
        if self.random.below(3) == 0 {
            let offset = self.random.below(SPAN) as i64;
            self.world.set(offset);
        }
        // Of the changes of one call only those of the same timer have an order.
        let ops: Vec<_> = match self.random.below(2) {
            0 => vec![self.any_op()],
            _ => (0..self.random.spread(5)).map(|_| self.grouped_op()).collect(),
        };
        let outcomes = self.world.try_apply(&ops);
        for (op, outcome) in ops.iter().zip(outcomes) {
            let expected = self.model.apply(op, self.world.now);
            if let actix_timers_durable::store::Outcome::Claimed { records, .. } = &expected {
                self.deliveries.extend(records.iter().map(|record| record.delivery()));
            }
            assert_eq!(outcome.unwrap(), expected, "{context}: {op:?} at {}", self.world.now);
        }
    }

    fn any_op(&mut self) -> Op {
        match self.random.below(11) {
            0 => {
                let count = self.random.below(4);
                let timers = (0..count).map(|_| {
                    let on_key = if self.random.below(2) == 0 { OnKey::KeepExisting } else { OnKey::Replace };
                    let mut record = self.record();
                    record.key = (self.random.below(4) > 0).then(|| self.random.choose(&KEYS).into());
                    let keep = self.random.below(SPAN);
                    record.keep_key =
                        record.key.as_ref().filter(|_| keep.is_multiple_of(2)).map(|_| Duration::from_millis(keep));
                    new(&record, on_key)
                });
                Op::Put(timers.collect())
            }
            1 => Op::Requeue(self.id()),
            2 => Op::Discard(self.id()),
            3 => Op::DiscardOlder { past_of: None, than: self.time(), limit: self.random.below(4) as usize },
            4 => Op::Claim(Claim {
                ids: vec![self.id()],
                filter: serving(&["a", "b"]),
                suspects: if self.random.below(2) == 0 { Suspects::Marked } else { Suspects::Unmarked },
            }),
            5 => {
                let next = Next::Dead { reason: "failed".into(), then: self.maybe_again() };
                Op::End(self.delivery(), self.noted(next))
            }
            8 => Op::DiscardOlder { past_of: Some("a".into()), than: self.time(), limit: 1000 },
            6 => {
                let pause = Pause::route(["a", "b", "c"][self.random.below(3) as usize]);
                let until = self.time();
                Op::Pause(if self.random.below(2) == 0 { pause } else { pause.until(until) })
            }
            7 => Op::Resume(PauseTarget::Route(["a", "b"][self.random.below(2) as usize].into())),
            _ => self.grouped_op(),
        }
    }

    /// Returns a change that depends on no other timer.
    fn grouped_op(&mut self) -> Op {
        match self.random.below(10) {
            8 => Op::Pause(Pause::timer(self.id())),
            9 => Op::Resume(PauseTarget::Timer(self.id())),
            0 | 1 => Op::Put(vec![new(&self.record(), OnKey::KeepExisting)]),
            2 | 3 => {
                let mut ids: Vec<_> = (0..self.random.below(6)).map(|_| self.id()).collect();
                ids.sort_unstable();
                ids.dedup();
                let routes: &[&str] = if self.random.below(3) == 0 { &["b"] } else { &["a", "b"] };
                Op::Claim(Claim { ids, filter: serving(routes), suspects: Suspects::Left })
            }
            4 => Op::Cancel(self.id()),
            5 => Op::Move(self.id(), self.time()),
            _ => {
                let next = match self.random.below(9) {
                    0 => self.noted(Next::Delete),
                    1 => {
                        let keep = Next::KeepKey(Duration::from_millis(self.random.below(SPAN)));
                        self.noted(keep)
                    }
                    2 | 6 | 7 => {
                        let again = Next::Again(self.again());
                        self.noted(again)
                    }
                    3 => Next::GiveBack,
                    4 => Next::Release,
                    5 => Next::Snooze(self.time()),
                    _ => Next::Park { reason: "no decoder".into() },
                };
                Op::End(self.delivery(), next)
            }
        }
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
            record.max_attempts = Some(1 + random.below(5) as u32);
            record.retry = Some(
                RetryPolicy::default().max_attempts(record.max_attempts.unwrap()).timeout(Duration::from_millis(7)),
            );
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

    /// Returns an id, rather one of the last.
    fn id(&mut self) -> DurableId {
        let back = self.random.spread(8) as usize;
        self.ids.iter().rev().nth(back).or(self.ids.last()).copied().unwrap_or(DurableId::from_parts(at(0), 0, 0))
    }

    fn delivery(&mut self) -> Delivery {
        let back = self.random.spread(5) as usize;
        let none = Delivery { id: DurableId::from_parts(at(0), 0, 0), repetition: 1, attempt: 1 };
        self.deliveries.iter().rev().nth(back).copied().unwrap_or(none)
    }

    fn time(&mut self) -> DueTime {
        at(self.random.below(SPAN) as i64)
    }

    fn again(&mut self) -> Again {
        Again { due: self.time(), nominal: self.time(), repetition: 1 + self.random.below(3) }
    }

    fn maybe_again(&mut self) -> Option<Again> {
        (self.random.below(2) == 0).then(|| self.again())
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
        let look = Look { after, until, filter: serving(routes), limit: 1 + random.spread(7) as usize };
        assert_eq!(
            store.look(&look, self.world.now).unwrap(),
            self.model.look(&look, self.world.now),
            "{context}: {look:?}"
        );
        compare_reads(store, &self.model, random, &self.ids, context);
    }
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
    let key = random.choose(&KEYS);
    assert_eq!(store.find_key("a", key).unwrap(), model.find_key("a", key), "{context}: {key}");
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
            .then(|| random.choose(&HEADERS))
            .map(|(name, value)| (name.into(), value.into())),
        written_until: (random.below(3) == 0).then(|| at(random.below(SPAN) as i64)),
        id: None,
        from: if random.below(2) == 0 { DueTime::MIN } else { one.min(other) },
        until: if random.below(2) == 0 { DueTime::MAX } else { one.max(other) },
        after: (random.below(2) == 0).then(|| some_position(random, ids)),
        limit: 1 + random.spread(6) as usize,
        is_count: false,
    };
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
