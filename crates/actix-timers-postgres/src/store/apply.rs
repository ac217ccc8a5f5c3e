//! Changes in transactions: as few as possible, and no change makes another one fail.
//!
//! Changes of different timers are one transaction and one round trip, those with keys another one, since they may wait for a
//! stranger's key. A group that fails is halved until the guilty change is alone; it gets the error.
//!
//! A change whose row or key a stranger's transaction has locked is left out, and the caller repeats it. A row or key that was found
//! locked is tried with care the next time, so that it does not hold up the others again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{Claim, Delivery, Names, NewTimer, Op, Outcome, Suspects};
use actix_timers_durable::{DurableId, StoreError};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use uuid::Uuid;

use super::puts;
use super::session::{Call, Session, error_of};
use super::steps::{LOCKED, claim_step, is_keyed, steps, uuids};
use crate::error::Failure;

/// Locked keys that are tried in one call.
const TRIED: usize = 2;
/// Time for which a row or key counts as locked after a try.
const LOCKED_FOR: Duration = Duration::from_secs(1);
/// Pauses before changes are tried again whose rows or keys were free the last time: other nodes lock them for a moment.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(30)];
/// The wait for a key that was found locked, or may be.
const WAIT: &str = "SELECT set_config('lock_timeout', '10', true)";

const PARK_DAMAGED: &str = "
    UPDATE @schema@.timers t SET node = NULL, alone = false, used = greatest(t.used - 1, 0),
        parked = 'damaged: a column holds something that is no timer'
    WHERE t.id = ANY ($1) AND coalesce(t.node, 0) = $2";

const PARK_REFUSED: &str = "
    UPDATE @schema@.timers t SET parked = $2 WHERE t.id = $1 AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = ''";

/// A statement, and the way from its rows to outcomes.
pub(super) struct Step<'a> {
    pub(super) call: Call<'a>,
    pub(super) read: Read<'a>,
}

/// Reads the rows of a statement.
pub(super) type Read<'a> = Box<dyn FnOnce(Vec<Row>, &mut Slots) + 'a>;

/// The outcomes so far.
#[derive(Default)]
pub(super) struct Slots {
    outcomes: Vec<Option<Result<Outcome, StoreError>>>,
    /// Changes whose rows are locked.
    pub(super) locked: Vec<usize>,
    pub(super) damaged: Vec<DurableId>,
    /// The routes that were paused for a claim.
    pub(super) paused: Vec<String>,
    pub(super) names: Names,
}

impl Slots {
    pub(super) fn done(&mut self, op: usize, outcome: Outcome) {
        self.outcomes[op] = Some(Ok(outcome));
    }

    fn fail(&mut self, ops: &[usize], error: impl Fn() -> StoreError) {
        for op in ops {
            self.outcomes[*op] = Some(Err(error()));
        }
    }
}

/// Changes of one transaction.
struct Group {
    ops: Vec<usize>,
    /// Puts that look at keys, or for themselves.
    is_keyed: bool,
    /// Whether locked rows were left out, and locked keys are.
    is_careful: bool,
}

/// Rows and keys that strangers' transactions have locked.
#[derive(Debug, Default)]
pub(super) struct Locked {
    /// Deliveries that could not be ended.
    ends: HashSet<Delivery>,
    /// Timers that could not be changed otherwise, with the time of the last try.
    ids: HashMap<DurableId, Instant>,
    /// Routes and keys, with the time of the last try.
    keys: HashMap<(Arc<str>, Arc<str>), Instant>,
    /// The number of calls, so that each key has its turn.
    turn: usize,
}

impl Locked {
    /// Takes note of an outcome.
    fn note(&mut self, op: &Op, is_locked: bool, now: Instant) {
        match op {
            Op::End(delivery, _) if is_locked => _ = self.ends.insert(*delivery),
            Op::End(delivery, _) if !self.ends.is_empty() => _ = self.ends.remove(delivery),
            Op::Put(timers) if is_locked || !self.keys.is_empty() => {
                for key in keys(timers) {
                    if is_locked { _ = self.keys.insert(key, now) } else { _ = self.keys.remove(&key) }
                }
            }
            Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) if is_locked => _ = self.ids.insert(*id, now),
            _ => {}
        }
    }

    /// Forgets what was not tried for long.
    fn forget(&mut self, now: Instant) {
        self.ids.retain(|_, tried| now < *tried + LOCKED_FOR);
        self.keys.retain(|_, tried| now < *tried + LOCKED_FOR);
    }

    /// Returns whether a change is not worth a wait.
    fn knows(&self, op: &Op) -> bool {
        match op {
            Op::End(..) | Op::Claim(_) => true,
            Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) => self.ids.contains_key(id),
            _ => self.key_of(op).is_some(),
        }
    }

    /// Returns the locked key of a change.
    fn key_of(&self, op: &Op) -> Option<(Arc<str>, Arc<str>)> {
        let Op::Put(timers) = op else { return None };
        if self.keys.is_empty() { None } else { keys(timers).find(|key| self.keys.contains_key(key)) }
    }
}

fn keys(timers: &[NewTimer]) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    timers.iter().filter_map(|NewTimer { record, .. }| Some((Arc::clone(&record.route), record.key.clone()?)))
}

/// Makes changes, and returns their outcomes in order.
pub(super) async fn apply(session: &mut Session, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
    let mut slots = Slots { outcomes: ops.iter().map(|_| None).collect(), ..Slots::default() };
    std::mem::swap(&mut slots.names, &mut session.names);
    session.locked.forget(Instant::now());
    leave_out_locked_ends(session, ops, &mut slots).await;
    let (tried, later) = locked_keys(&mut session.locked, ops);
    let mut patient: Vec<usize> = (0..ops.len()).filter(|op| !session.locked.knows(&ops[*op])).collect();
    let is_new = |op: &usize| !tried.contains(op) && !later.contains(op);
    let mut begun = groups(ops, (0..ops.len()).filter(is_new), &mut slots);
    begun.extend(tried.iter().flat_map(|op| careful(ops, vec![*op])));
    run(session, ops, begun, &mut slots).await;
    for pause in PAUSES {
        patient.retain(|op| matches!(slots.outcomes[*op], Some(Err(StoreError::Locked))));
        if patient.is_empty() {
            break;
        }
        sleep(pause).await;
        patient.iter().for_each(|op| slots.outcomes[*op] = None);
        let again = groups(ops, patient.iter().copied(), &mut slots);
        let again =
            again.into_iter().flat_map(|group| if group.is_keyed { careful(ops, group.ops) } else { vec![group] });
        run(session, ops, again.collect(), &mut slots).await;
    }
    // Keys are free if the first change with them succeeded.
    let (locked, free): (Vec<_>, Vec<_>) = later.into_iter().partition(|op| session.locked.key_of(&ops[*op]).is_some());
    slots.fail(&locked, || StoreError::Locked);
    run(session, ops, groups(ops, free.into_iter(), &mut slots), &mut slots).await;
    slots.paused.iter().for_each(|names| session.shared.paused(names));
    if !slots.damaged.is_empty() {
        let (damaged, node) = (uuids(slots.damaged.iter().copied()), session.node());
        // If it fails, they are given back as claims that nobody knows.
        _ = session.query(PARK_DAMAGED, vec![Box::new(damaged), Box::new(node)]).await;
    }
    std::mem::swap(&mut slots.names, &mut session.names);
    distrust_late_claims(session, ops, &mut slots);
    let missing = || Err(StoreError::Unavailable("the server has not answered this request".to_owned()));
    slots.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

/// Runs groups, and takes note of what is locked.
async fn run(session: &mut Session, ops: &[Op], mut groups: VecDeque<Group>, slots: &mut Slots) {
    let parts: Vec<usize> = groups.iter().flat_map(|group| group.ops.iter().copied()).collect();
    while let Some(group) = groups.pop_front() {
        match send(session, ops, &group, slots).await {
            Ok(()) => {
                let locked = std::mem::take(&mut slots.locked);
                slots.fail(&locked, || StoreError::Locked);
            }
            Err(failure) => repeat(session, ops, group, &failure, &mut groups, slots).await,
        }
    }
    let now = Instant::now();
    for op in parts {
        let is_locked = matches!(slots.outcomes[op], Some(Err(StoreError::Locked)));
        session.locked.note(&ops[op], is_locked, now);
    }
}

/// Takes claims for lost whose replies came after the end of the lease: their timers may be another node's by now. If they
/// are not, the next beat gives them back.
fn distrust_late_claims(session: &mut Session, ops: &[Op], slots: &mut Slots) {
    if session.shared.has_lease() {
        return;
    }
    let Some(member) = session.member.as_mut() else { return };
    for (op, outcome) in ops.iter().zip(&mut slots.outcomes) {
        if let (Op::Claim(claim), Some(Ok(Outcome::Claimed { records, .. }))) = (op, &*outcome)
            && !records.is_empty()
        {
            if claim.suspects == Suspects::Marked {
                session.lost_marks.extend(&claim.ids);
            }
            member.swept.0 = u64::MAX;
            *outcome = Some(Err(StoreError::Unknown("the lease of this node is over".to_owned())));
        }
    }
}

/// Leaves out ends of deliveries whose rows were locked, and still are: they would wait for the locks.
async fn leave_out_locked_ends(session: &mut Session, ops: &[Op], slots: &mut Slots) {
    if session.locked.ends.is_empty() {
        return;
    }
    let ends: Vec<usize> = (0..ops.len())
        .filter(|op| matches!(&ops[*op], Op::End(delivery, _) if session.locked.ends.contains(delivery)))
        .collect();
    if let Ok(locked) = locked_ends(session, ops, &ends).await {
        slots.fail(&locked, || StoreError::Locked);
    }
}

/// Returns those of the ends whose rows are locked.
async fn locked_ends(session: &mut Session, ops: &[Op], part: &[usize]) -> Result<Vec<usize>, Failure> {
    let id = |op: &usize| match &ops[*op] {
        Op::End(delivery, _) => Some(Uuid::from(delivery.id)),
        _ => None,
    };
    let mut ids: Vec<_> = part.iter().filter_map(id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    ids.sort_unstable();
    let rows = session.query(LOCKED, vec![Box::new(ids)]).await?;
    let locked: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    Ok(part.iter().copied().filter(|op| id(op).is_some_and(|id| locked.contains(&id))).collect())
}

/// Returns the changes with locked keys: the first ones with some of the keys, which are tried, and all others.
fn locked_keys(locked: &mut Locked, ops: &[Op]) -> (Vec<usize>, Vec<usize>) {
    let mut by_key: HashMap<_, Vec<usize>> = HashMap::new();
    let mut order = Vec::new();
    let with_key = |(op, change)| Some((op, locked.key_of(change)?)).filter(|_| refused(change).is_none());
    for (op, key) in ops.iter().enumerate().filter_map(with_key) {
        let of_key = by_key.entry(key.clone()).or_default();
        if of_key.is_empty() {
            order.push(key);
        }
        of_key.push(op);
    }
    if order.is_empty() {
        return (Vec::new(), Vec::new());
    }
    locked.turn = locked.turn.wrapping_add(TRIED);
    let begin = locked.turn % order.len();
    order.rotate_left(begin);
    let tried: Vec<usize> = order.iter().take(TRIED).map(|key| by_key[key][0]).collect();
    let mut later: Vec<usize> = by_key.into_values().flatten().filter(|op| !tried.contains(op)).collect();
    later.sort_unstable();
    (tried, later)
}

/// Divides changes with keys for a try that leaves locked keys out: several timers of one request are stored together.
fn careful(ops: &[Op], part: Vec<usize>) -> Vec<Group> {
    let is_single = |op: &usize| matches!(&ops[*op], Op::Put(timers) if timers.len() == 1);
    let (singles, others): (Vec<_>, Vec<_>) = part.into_iter().partition(is_single);
    let groups = std::iter::once(singles).chain(others.into_iter().map(|op| vec![op]));
    groups.filter(|ops| !ops.is_empty()).map(|ops| Group { ops, is_keyed: true, is_careful: true }).collect()
}

/// Divides changes so that those of one timer are in different groups, in order. Refuses what cannot be stored.
fn groups(ops: &[Op], part: impl Iterator<Item = usize>, slots: &mut Slots) -> VecDeque<Group> {
    let mut groups = VecDeque::new();
    let (mut plain, mut keyed, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    let mut close = |plain: &mut Vec<usize>, keyed: &mut Vec<usize>| {
        for (ops, is_keyed) in [(plain, false), (keyed, true)] {
            if !ops.is_empty() {
                groups.push_back(Group { ops: std::mem::take(ops), is_keyed, is_careful: false });
            }
        }
    };
    for (number, op) in part.map(|number| (number, &ops[number])) {
        if slots.outcomes[number].is_some() {
            continue;
        }
        let of: Vec<DurableId> = match op {
            Op::Put(timers) => timers.iter().map(|timer| timer.record.id).collect(),
            Op::Claim(claim) => claim.ids.clone(),
            Op::End(delivery, _) => vec![delivery.id],
            Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) | Op::Discard(id) => vec![*id],
            Op::Restore(found) => vec![found.record.id],
            Op::DiscardOlder { .. } => vec![],
        };
        if let Some(error) = refused(op) {
            slots.outcomes[number] = Some(Err(error));
            continue;
        }
        if of.iter().any(|id| ids.contains(id)) {
            close(&mut plain, &mut keyed);
            ids.clear();
        }
        ids.extend(of);
        let waits = matches!(op, Op::Put(timers) if is_keyed(timers)) || matches!(op, Op::Requeue(_));
        if waits { &mut keyed } else { &mut plain }.push(number);
    }
    close(&mut plain, &mut keyed);
    groups
}

fn refused(op: &Op) -> Option<StoreError> {
    match op {
        Op::Put(timers) => timers.iter().find_map(|NewTimer { record, .. }| puts::check(record).err()),
        Op::Restore(found) => puts::check(&found.record).err(),
        _ => None,
    }
}

/// Sends a group, and reads its outcomes.
async fn send(session: &mut Session, ops: &[Op], group: &Group, slots: &mut Slots) -> Result<(), Failure> {
    let is_careful = group.is_keyed && group.is_careful;
    let mut steps = steps(ops, &group.ops, session.node(), is_careful);
    if is_careful {
        steps.insert(0, Step { call: Call { sql: WAIT, params: vec![] }, read: Box::new(|_, _| {}) });
    }
    let (calls, reads): (Vec<_>, Vec<_>) = steps.into_iter().map(|step| (step.call, step.read)).unzip();
    let rows = session.send(&calls).await?;
    reads.into_iter().zip(rows).for_each(|(read, rows)| read(rows, slots));
    Ok(())
}

fn is_collision(failure: &Failure) -> bool {
    ["55P03", "40P01", "40001"].iter().any(|state| failure.has_state(state))
}

/// Returns whether a failure is that of a change, and not of the server, the rights, or the tables.
fn is_guilt(failure: &Failure) -> bool {
    let Failure::Reported { state, .. } = failure else { return false };
    is_collision(failure)
        || matches!(state.code().get(..2), Some("0A" | "21" | "22" | "23" | "2F" | "38" | "54" | "P0" | "XX"))
}

/// Decides about a group that failed.
async fn repeat(
    session: &mut Session,
    ops: &[Op],
    group: Group,
    failure: &Failure,
    groups: &mut VecDeque<Group>,
    slots: &mut Slots,
) {
    if matches!(failure, Failure::NoReply(_)) {
        session.shared.metered(|meters| meters.replies_lost.increment(1));
        let marked = group.ops.iter().filter_map(|op| match &ops[*op] {
            Op::Claim(Claim { ids, suspects: Suspects::Marked, .. }) => Some(ids.iter().copied()),
            _ => None,
        });
        session.lost_marks.extend(marked.flatten());
    }
    if !is_guilt(failure) {
        return slots.fail(&group.ops, || error_of(failure));
    }
    if is_collision(failure) && !group.is_careful && !group.is_keyed {
        return match locked_ends(session, ops, &group.ops).await {
            Ok(locked) => {
                let free: Vec<_> = group.ops.iter().copied().filter(|op| !locked.contains(op)).collect();
                slots.fail(&locked, || StoreError::Locked);
                if !free.is_empty() {
                    groups.push_front(Group { ops: free, is_careful: true, ..group });
                }
            }
            Err(failure) => slots.fail(&group.ops, || error_of(&failure)),
        };
    }
    if is_collision(failure) && group.is_keyed && !group.is_careful {
        return careful(ops, group.ops).into_iter().rev().for_each(|group| groups.push_front(group));
    }
    if group.ops.len() > 1 {
        let (first, second) = group.ops.split_at(group.ops.len() / 2);
        for half in [second, first] {
            groups.push_front(Group { ops: half.to_vec(), ..group });
        }
    } else if is_collision(failure) {
        slots.fail(&group.ops, || StoreError::Locked);
    } else if let Op::Claim(claim) = &ops[group.ops[0]] {
        claim_apart(session, group.ops[0], claim, slots).await;
    } else if failure.finds_known_timer() && !group.is_keyed {
        // The request was repeated: the function says so.
        let sent = match &ops[group.ops[0]] {
            Op::Put(timers) => send_step(session, puts::keyed(vec![(group.ops[0], timers)], false), slots).await,
            _ => Err(Failure::Reported {
                state: tokio_postgres::error::SqlState::UNIQUE_VIOLATION,
                text: failure.to_string(),
            }),
        };
        if let Err(failure) = sent {
            slots.fail(&group.ops, || error_of(&failure));
        }
    } else {
        slots.fail(&group.ops, || error_of(failure));
    }
}

/// Claims timers in halves, since one of them fails all. The guilty one is parked.
async fn claim_apart(session: &mut Session, op: usize, claim: &Claim, slots: &mut Slots) {
    let (mut records, mut not_due, mut damaged, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut parts = VecDeque::from([claim.ids.clone()]);
    while let Some(ids) = parts.pop_front() {
        let part = Claim { ids, ..claim.clone() };
        match send_step(session, claim_step(op, &part, session.node()), slots).await {
            Ok(()) => {
                if let Some(Ok(Outcome::Claimed { records: more, not_due: early, damaged: bad, left: rest })) =
                    slots.outcomes[op].take()
                {
                    records.extend(more);
                    not_due.extend(early);
                    damaged.extend(bad);
                    left.extend(rest);
                }
            }
            Err(failure) if !is_guilt(&failure) || is_collision(&failure) => {
                return slots.fail(&[op], || error_of(&failure));
            }
            Err(failure) if part.ids.len() < 2 => {
                for id in part.ids {
                    let reason = format!("the server refuses its claim: {failure}");
                    // If that is refused, too, the next look finds the timer again.
                    _ = session.query(PARK_REFUSED, vec![Box::new(Uuid::from(id)), Box::new(reason)]).await;
                    damaged.push(id);
                }
            }
            Err(_) => {
                let (first, second) = part.ids.split_at(part.ids.len() / 2);
                parts.push_front(second.to_vec());
                parts.push_front(first.to_vec());
            }
        }
    }
    slots.done(op, Outcome::Claimed { records, not_due, damaged, left });
}

async fn send_step(session: &mut Session, step: Step<'_>, slots: &mut Slots) -> Result<(), Failure> {
    let rows = session.send(&[step.call]).await?;
    (step.read)(rows.into_iter().next().unwrap_or_default(), slots);
    Ok(())
}
