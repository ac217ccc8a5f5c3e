//! Changes in transactions: as few as possible, and no change makes another one fail.
//!
//! Changes of different timers are one transaction and one round trip, those with keys another one, since they may wait for a
//! stranger's key. A group that fails is tried again with care: without ends whose rows are locked, and without puts whose keys are.
//! If it still fails, it is halved until the guilty change is alone; it gets the error.
//!
//! A change whose row or key a stranger's transaction has locked is left out, and the caller repeats it. The call after one that
//! found something locked begins with care, so that locks do not hold up the others again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{Claim, NewTimer, Op, Outcome, State, Suspects};
use actix_timers_durable::{DurableId, StoreError};
use tokio::time::Instant;
use tokio_postgres::Row;
use uuid::Uuid;

use super::beat::REFUSES;
use super::puts;
use super::row::{due, id};
use super::session::{Call, Session, params};
use super::steps::{LOCKED, claim_params, claim_steps, ids_of, is_keyed, steps, uuids};
use crate::error::Failure;

/// Changes with keys that are tried together with care.
const CAREFUL: usize = 128;
/// The time for which a call tries with care, and looks at what its claims have not returned. The rest counts as locked, so that a
/// call does not outlast the lease.
const CAREFUL_FOR: Duration = Duration::from_millis(500);
/// The part of the lease, one in ..., after which further changes of a timer count as locked, for the same reason: each of several
/// is a transaction.
const PART: u32 = 4;
/// The wait for each key of a careful try.
const WAIT: &str = "SELECT set_config('lock_timeout', '2', true)";

const PARK_DAMAGED: &str = "
    UPDATE @schema@.timers t SET node = NULL, alone = false, used = greatest(t.used - 1, 0),
        parked = 'damaged: a column holds something that is no timer'
    WHERE t.id = ANY ($1) AND coalesce(t.node, 0) = $2";

const PARK_REFUSED: &str = "
    UPDATE @schema@.timers t SET parked = $2 WHERE t.id = $1 AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = ''";

const SETTLED: &str = "SELECT @schema@.pause_settled()";

const UNCLAIMED: &str = include_str!("unclaimed.sql");

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
    pub(super) unclaimed: Vec<Unclaimed>,
    /// A time just before the last claim.
    pub(super) claimed_at: i64,
}

/// The timers that a claim has not returned, in its order.
pub(super) struct Unclaimed {
    pub(super) op: usize,
    pub(super) ids: Vec<DurableId>,
    /// A time just before the claim.
    pub(super) at: i64,
    /// Whether the claim may have left out timers because of their size.
    pub(super) is_full: bool,
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
    /// Puts that look at keys, or for themselves, and others that may wait.
    is_keyed: bool,
    /// Whether locked rows and keys are left out. That costs more, and follows a failure.
    is_careful: bool,
    /// Whether an earlier change of the call is of the same timer, or a pause.
    is_later: bool,
}

impl Group {
    /// Divides the group for a careful try: a request for several timers is a transaction of its own.
    fn carefully(self, ops: &[Op], turn: usize) -> Vec<Self> {
        if !self.is_keyed {
            return vec![Self { is_careful: true, ..self }];
        }
        let is_several = |op: &usize| matches!(&ops[*op], Op::Put(timers) if timers.len() > 1);
        let key = |op: &usize| match &ops[*op] {
            Op::Put(timers) => timers.first().map(|timer| (&timer.record.route, &timer.record.key)),
            _ => None,
        };
        let (several, mut single): (Vec<_>, Vec<_>) = self.ops.into_iter().partition(is_several);
        // Those of one key are in one part, in their order.
        single.sort_by_key(key);
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for of_key in single.chunk_by(|one, next| key(one).is_some() && key(one) == key(next)) {
            match parts.last_mut().filter(|part| part.len() + of_key.len() <= CAREFUL) {
                Some(part) => part.extend(of_key),
                None => parts.push(of_key.to_vec()),
            }
        }
        parts.extend(several.into_iter().map(|op| vec![op]));
        let mut parts: Vec<_> = parts.into_iter().map(|ops| Self { ops, is_careful: true, ..self }).collect();
        // Another part is the first one in each call, in case that the time is too short for all.
        let begin = turn.checked_rem(parts.len()).unwrap_or(0);
        parts.rotate_left(begin);
        parts
    }
}

/// Makes changes, and returns their outcomes in order.
pub(super) async fn apply(session: &mut Session, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
    let mut slots = Slots { outcomes: ops.iter().map(|_| None).collect(), ..Slots::default() };
    let marked = ops.iter().filter_map(|op| match op {
        Op::Claim(Claim { ids, suspects: Suspects::Marked, .. }) => Some(ids),
        _ => None,
    });
    session.marked.extend(marked.flatten());
    session.turn = session.turn.wrapping_add(1);
    let mut groups = groups(ops, &mut slots);
    if session.has_locked {
        groups = groups.into_iter().flat_map(|group| group.carefully(ops, session.turn)).collect();
    }
    let until = Instant::now() + session.member.lease / PART;
    let (mut careful_until, mut looks_until) = (None, None);
    while let Some(mut group) = groups.pop_front() {
        let now = Instant::now();
        if group.is_later && now > until {
            groups.push_front(group);
            break;
        }
        if group.is_careful && now > *careful_until.get_or_insert(now + CAREFUL_FOR) {
            slots.fail(&group.ops, || StoreError::Locked);
        } else if let Err(failure) = send(session, ops, &mut group, &mut slots).await {
            repeat(session, ops, group, &failure, &mut groups, &mut slots).await;
        }
        for unclaimed in std::mem::take(&mut slots.unclaimed) {
            // The outcomes of committed changes do not wait long for it.
            let has_time = Instant::now() < *looks_until.get_or_insert(Instant::now() + CAREFUL_FOR);
            look_at(session, ops, unclaimed, has_time, &mut slots).await;
        }
    }
    settle(session, &mut slots).await;
    session.has_locked = slots.outcomes.iter().any(|outcome| matches!(outcome, Some(Err(StoreError::Locked))));
    groups.iter().for_each(|group| slots.fail(&group.ops, || StoreError::Locked));
    park_damaged(session, &slots.damaged).await;
    distrust_late_claims(session, ops, &mut slots);
    let missing = || Err(StoreError::Unavailable("the server has not answered this request".to_owned()));
    slots.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

/// Parks claimed timers that cannot be read. If that fails, the sweep of the node finds them again.
pub(super) async fn park_damaged(session: &mut Session, damaged: &[DurableId]) {
    if !damaged.is_empty() {
        let (damaged, node) = (uuids(damaged.iter().copied()), session.node());
        _ = session.query(PARK_DAMAGED, params![damaged, node]).await;
    }
}

/// Waits for the claims that began before pauses were committed. Without that they are not acknowledged, and are repeated.
async fn settle(session: &mut Session, slots: &mut Slots) {
    let is_paused = |op: &usize| matches!(slots.outcomes[*op], Some(Ok(Outcome::Paused)));
    let paused: Vec<usize> = (0..slots.outcomes.len()).filter(is_paused).collect();
    if !paused.is_empty()
        && let Err(failure) = session.query(SETTLED, vec![]).await
    {
        let is_locked = is_collision(&failure);
        slots.fail(&paused, || if is_locked { StoreError::Locked } else { failure.error() });
    }
}

/// Completes the outcome of a claim by the timers that it has not returned. If they cannot be read, they are to be claimed again.
async fn look_at(session: &mut Session, ops: &[Op], unclaimed: Unclaimed, has_time: bool, slots: &mut Slots) {
    let (Op::Claim(claim), Some(Ok(Outcome::Claimed { not_due, left, locked, .. }))) =
        (&ops[unclaimed.op], &mut slots.outcomes[unclaimed.op])
    else {
        return;
    };
    let types = Arc::clone(&session.member.types);
    let mut params = claim_params(session.node(), &unclaimed.ids, &types);
    params.push(Box::new(unclaimed.at));
    let rows = if has_time { session.query(UNCLAIMED, params).await.ok() } else { None };
    let Some(rows) = rows else {
        return not_due.extend(unclaimed.ids.into_iter().map(|id| (id, id.first_due())));
    };
    let paused = rows.iter().filter_map(|row| row.get::<_, Option<&str>>(4));
    paused.for_each(|names| session.shared.paused(names));
    let rows: HashMap<_, _> = rows.iter().filter_map(|row| Some((id(row, 0)?, row))).collect();
    for id in unclaimed.ids {
        let Some(row) = rows.get(&id) else { continue };
        let (is_due, is_suspect): (bool, bool) = (row.get(2), row.get(3));
        if is_due && is_suspect != (claim.suspects != Suspects::Left) {
            left.push(id);
        } else if !is_due || unclaimed.is_full {
            not_due.push((id, due(row.get(1))));
        } else {
            // Another node may be claiming it, or the pause is over.
            locked.push((id, due(row.get(1))));
        }
    }
}

/// Takes claims for lost whose replies came after the end of the lease: their timers may be another node's by now. If they
/// are not, the next beat gives them back.
fn distrust_late_claims(session: &mut Session, ops: &[Op], slots: &mut Slots) {
    if session.shared.has_lease() {
        return;
    }
    for (op, outcome) in ops.iter().zip(&mut slots.outcomes) {
        if let (Op::Claim(_), Some(Ok(Outcome::Claimed { records, .. }))) = (op, &*outcome)
            && !records.is_empty()
        {
            session.breaks += 1;
            *outcome = Some(Err(StoreError::Unknown("the lease of this node is over".to_owned())));
        }
    }
}

/// Returns those of the timers whose rows are locked.
pub(super) async fn locked(
    session: &mut Session,
    ids: impl Iterator<Item = DurableId>,
) -> Result<HashSet<DurableId>, Failure> {
    let mut ids = uuids(ids);
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    ids.sort_unstable();
    let rows = session.query(LOCKED, params![ids]).await?;
    Ok(rows.iter().filter_map(|row| id(row, 0)).collect())
}

/// Divides changes so that two of one timer are in different groups, in order. Refuses timers that cannot be stored.
fn groups(ops: &[Op], slots: &mut Slots) -> VecDeque<Group> {
    let mut groups = VecDeque::new();
    let (mut plain, mut keyed, mut ids, mut is_later) = (Vec::new(), Vec::new(), HashSet::new(), false);
    let mut close = |plain: &mut Vec<usize>, keyed: &mut Vec<usize>| {
        for (ops, is_keyed) in [(plain, false), (keyed, true)] {
            if !ops.is_empty() {
                groups.push_back(Group { ops: std::mem::take(ops), is_keyed, is_careful: false, is_later });
            }
        }
        is_later = true;
    };
    for (number, op) in ops.iter().enumerate() {
        let of = ids_of(op);
        if matches!(op, Op::Restore(found) if matches!(found.state, State::Finished(_))) {
            slots.done(number, Outcome::NotFound);
            continue;
        }
        if let Some(error) = refused(op) {
            slots.outcomes[number] = Some(Err(error));
            continue;
        }
        if of.iter().any(|id| ids.contains(id)) {
            close(&mut plain, &mut keyed);
            ids.clear();
        }
        ids.extend(of);
        let waits = matches!(op, Op::Put(timers) if is_keyed(timers))
            || matches!(op, Op::Requeue(_) | Op::Pause(_) | Op::Resume(_));
        if waits { &mut keyed } else { &mut plain }.push(number);
        if matches!(op, Op::Pause(pause) if pause.target.row().is_ok()) {
            // Later claims leave out the paused ones.
            close(&mut plain, &mut keyed);
            ids.clear();
        }
    }
    close(&mut plain, &mut keyed);
    groups
}

fn refused(op: &Op) -> Option<StoreError> {
    match op {
        Op::Put(timers) => timers.iter().find_map(|NewTimer { record, .. }| puts::check(record).err()),
        Op::Restore(found) => puts::check(&found.record).err(),
        Op::EndWith(..) => Some(StoreError::Unsupported("effects of its own: use `PostgresStore::complete_in`")),
        _ => None,
    }
}

/// Sends a group, and reads its outcomes. A careful one loses the ends whose rows are locked.
async fn send(session: &mut Session, ops: &[Op], group: &mut Group, slots: &mut Slots) -> Result<(), Failure> {
    if group.is_careful && !group.is_keyed {
        let end = |op: &usize| if let Op::End(delivery, _) = &ops[*op] { Some(delivery.id) } else { None };
        let locked = locked(session, group.ops.iter().filter_map(end)).await?;
        for op in group.ops.extract_if(.., |op| end(op).is_some_and(|id| locked.contains(&id))) {
            slots.fail(&[op], || StoreError::Locked);
        }
    }
    let is_careful = group.is_keyed && group.is_careful;
    let types = Arc::clone(&session.member.types);
    let mut steps = steps(ops, &group.ops, session.node(), &types, is_careful);
    if is_careful {
        steps.insert(0, Step { call: Call { sql: WAIT, params: vec![] }, read: Box::new(|_, _| {}) });
    }
    send_steps(session, steps, slots).await?;
    let locked = std::mem::take(&mut slots.locked);
    slots.fail(&locked, || StoreError::Locked);
    Ok(())
}

fn is_collision(failure: &Failure) -> bool {
    ["55P03", "40P01", "40001"].iter().any(|state| failure.has_state(state))
}

/// Returns whether a failure is that of a change, and not of the server, the rights, or the tables.
fn is_guilt(failure: &Failure) -> bool {
    is_collision(failure) || failure.is_refusal()
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
    }
    if group.is_careful && group.is_keyed && failure.has_state("57014") {
        // The waits for keys were too long together.
        return slots.fail(&group.ops, || StoreError::Locked);
    }
    if !is_guilt(failure) {
        return slots.fail(&group.ops, || failure.error());
    }
    if !group.is_careful {
        group.carefully(ops, session.turn).into_iter().rev().for_each(|group| groups.push_front(group));
    } else if group.ops.len() > 1 {
        let (first, second) = group.ops.split_at(group.ops.len() / 2);
        // Not the same half first in each call, in case that the time is too short for both. Those with one key keep their order.
        let is_in_order = group.is_keyed || session.turn.is_multiple_of(2);
        let [later, sooner] = if is_in_order { [second, first] } else { [first, second] };
        for half in [later, sooner] {
            groups.push_front(Group { ops: half.to_vec(), ..group });
        }
    } else if is_collision(failure) {
        slots.fail(&group.ops, || StoreError::Locked);
    } else if let Op::Claim(claim) = &ops[group.ops[0]] {
        claim_apart(session, group.ops[0], claim, slots).await;
    } else if let Op::Put(timers) = &ops[group.ops[0]]
        && !group.is_keyed
        && failure.has_state("23505")
    {
        // The request was repeated: the function says so.
        if let Err(failure) = send_steps(session, [puts::keyed(vec![(group.ops[0], timers)], false)], slots).await {
            slots.fail(&group.ops, || failure.error());
        }
    } else {
        slots.fail(&group.ops, || failure.error());
    }
}

/// Claims timers in halves, since one of them fails all. The guilty one is parked.
async fn claim_apart(session: &mut Session, op: usize, claim: &Claim, slots: &mut Slots) {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    let (types, mut parts) = (Arc::clone(&session.member.types), VecDeque::from([claim.ids.clone()]));
    while let Some(ids) = parts.pop_front() {
        let part = Claim { ids, suspects: claim.suspects };
        match send_steps(session, claim_steps(op, &part, session.node(), &types), slots).await {
            Ok(()) => {
                if let Some(Ok(Outcome::Claimed { records: more, damaged: bad, .. })) = slots.outcomes[op].take() {
                    records.extend(more);
                    damaged.extend(bad);
                }
            }
            Err(failure) if !is_guilt(&failure) || is_collision(&failure) => {
                // The next beat finds the parts that are claimed.
                session.breaks += 1;
                return slots.fail(&[op], || failure.error());
            }
            Err(failure) if part.ids.len() < 2 => {
                for id in part.ids {
                    let reason = format!("{REFUSES}: {failure}");
                    // If that is refused, too, the next look finds the timer again. The reply may be lost.
                    let parked = session.query(PARK_REFUSED, params![Uuid::from(id), reason]).await;
                    if !parked.is_err_and(|failure| failure.is_refusal()) {
                        session.member.refused(id.into());
                    }
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
    slots.done(op, Outcome::Claimed { records, not_due: Vec::new(), damaged, left: Vec::new(), locked: Vec::new() });
}

async fn send_steps<'a>(
    session: &mut Session,
    steps: impl IntoIterator<Item = Step<'a>>,
    slots: &mut Slots,
) -> Result<(), Failure> {
    let (calls, reads): (Vec<_>, Vec<_>) = steps.into_iter().map(|step| (step.call, step.read)).unzip();
    let rows = session.send(&calls).await?;
    reads.into_iter().zip(rows).for_each(|(read, rows)| read(rows, slots));
    Ok(())
}
