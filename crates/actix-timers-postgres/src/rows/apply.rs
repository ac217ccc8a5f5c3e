//! Changes in transactions: as few as possible, and no change makes another one fail.
//!
//! Changes of different timers are one transaction and one round trip, those with keys another one, since they may wait for a
//! stranger's key. A group that fails is halved until the guilty change is alone; it gets the error.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use actix_timers_durable::rows::{Claim, NewTimer, Op, Outcome, Suspects};
use actix_timers_durable::{DurableId, StoreError};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use uuid::Uuid;

use super::puts;
use super::row::Names;
use super::session::{Call, Session, error_of};
use super::steps::{LOCKED, is_keyed, steps, uuids};
use crate::error::Failure;

/// Time for which a change of a locked row is repeated.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

const PARK_DAMAGED: &str = "
    UPDATE @schema@.timers t SET node = NULL, alone = false, used = greatest(t.used - 1, 0),
        parked = 'damaged: a column holds something that is no timer'
    WHERE t.id = ANY ($1) AND coalesce(t.node, 0) = $2";

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
    /// Whether locked rows were left out.
    is_careful: bool,
}

/// Makes changes, and returns their outcomes in order.
pub(super) async fn apply(session: &mut Session, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
    let mut slots = Slots { outcomes: ops.iter().map(|_| None).collect(), ..Slots::default() };
    std::mem::swap(&mut slots.names, &mut session.names);
    let mut groups = groups(ops, &mut slots);
    let mut blocked = Vec::new();
    while let Some(group) = groups.pop_front() {
        match send(session, ops, &group.ops, &mut slots).await {
            Ok(()) => blocked.append(&mut slots.locked),
            Err(failure) => repeat(session, ops, group, &failure, &mut groups, &mut blocked, &mut slots).await,
        }
    }
    let end = Instant::now() + PATIENCE;
    while !blocked.is_empty() && Instant::now() < end {
        sleep(PAUSE).await;
        for op in std::mem::take(&mut blocked) {
            match send(session, ops, &[op], &mut slots).await {
                Ok(()) => blocked.append(&mut slots.locked),
                Err(failure) if is_collision(&failure) => blocked.push(op),
                Err(failure) => slots.fail(&[op], || error_of(&failure)),
            }
        }
    }
    slots.fail(&blocked, busy);
    slots.paused.iter().for_each(|names| session.shared.paused(names));
    if !slots.damaged.is_empty() {
        let (damaged, node) = (uuids(slots.damaged.iter().copied()), session.node());
        // If it fails, they are given back as claims that nobody knows.
        _ = session.query(PARK_DAMAGED, vec![Box::new(damaged), Box::new(node)]).await;
    }
    std::mem::swap(&mut slots.names, &mut session.names);
    let missing = || Err(StoreError::Unavailable("the server has not answered this request".to_owned()));
    slots.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
}

fn busy() -> StoreError {
    StoreError::Unavailable("another transaction keeps the timer or its key locked".to_owned())
}

/// Divides changes so that those of one timer are in different groups, in order. Refuses what cannot be stored.
fn groups(ops: &[Op], slots: &mut Slots) -> VecDeque<Group> {
    let mut groups = VecDeque::new();
    let (mut plain, mut keyed, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    let mut close = |plain: &mut Vec<usize>, keyed: &mut Vec<usize>| {
        for (ops, is_keyed) in [(plain, false), (keyed, true)] {
            if !ops.is_empty() {
                groups.push_back(Group { ops: std::mem::take(ops), is_keyed, is_careful: false });
            }
        }
    };
    for (number, op) in ops.iter().enumerate() {
        let of: Vec<DurableId> = match op {
            Op::Put(timers) => timers.iter().map(|timer| timer.record.id).collect(),
            Op::Claim(claim) => claim.ids.clone(),
            Op::End(delivery, _) => vec![delivery.id],
            Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) | Op::Discard(id) => vec![*id],
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
    let Op::Put(timers) = op else { return None };
    timers.iter().find_map(|NewTimer { record, .. }| puts::check(record).err())
}

/// Sends a group, and reads its outcomes.
async fn send(session: &mut Session, ops: &[Op], part: &[usize], slots: &mut Slots) -> Result<(), Failure> {
    let steps = steps(ops, part, session.node());
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
    blocked: &mut Vec<usize>,
    slots: &mut Slots,
) {
    if matches!(failure, Failure::NoReply(_)) {
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
        let ends = |op: &usize| matches!(ops[*op], Op::End(..));
        let ids = group.ops.iter().filter(|op| ends(op)).filter_map(|op| match &ops[*op] {
            Op::End(delivery, _) => Some(Uuid::from(delivery.id)),
            _ => None,
        });
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        return match session.query(LOCKED, vec![Box::new(ids)]).await {
            Ok(rows) => {
                let locked: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
                let is_locked = |op: &usize| match &ops[*op] {
                    Op::End(delivery, _) => locked.contains(&Uuid::from(delivery.id)),
                    _ => false,
                };
                let (locked, free): (Vec<_>, Vec<_>) = group.ops.iter().copied().partition(is_locked);
                slots.fail(&locked, busy);
                if !free.is_empty() {
                    groups.push_front(Group { ops: free, is_careful: true, ..group });
                }
            }
            Err(failure) => slots.fail(&group.ops, || error_of(&failure)),
        };
    }
    if group.ops.len() > 1 {
        let (first, second) = group.ops.split_at(group.ops.len() / 2);
        for half in [second, first] {
            groups.push_front(Group { ops: half.to_vec(), ..group });
        }
    } else if is_collision(failure) {
        blocked.extend(&group.ops);
    } else if failure.finds_known_timer() && !group.is_keyed {
        // The request was repeated: the function says so.
        let sent = match &ops[group.ops[0]] {
            Op::Put(timers) => send_step(session, puts::keyed(vec![(group.ops[0], timers)]), slots).await,
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

async fn send_step(session: &mut Session, step: Step<'_>, slots: &mut Slots) -> Result<(), Failure> {
    let rows = session.send(&[step.call]).await?;
    (step.read)(rows.into_iter().next().unwrap_or_default(), slots);
    Ok(())
}
