//! From the results of the function `commit` to the outcome of each change.

use std::collections::HashMap;
use std::sync::Arc;

use actix_timers_durable::store::{Change, ChangeOutcome, Committed, Group};
use actix_timers_durable::{DurableId, Record};

use crate::plan::{KeyOutcome, Plan, first_ords};

/// Codes of the function.
pub(crate) mod code {
    pub(crate) const EXISTS: i16 = 1;
    pub(crate) const REPLACED: i16 = 2;
    pub(crate) const REPLACED_IN_FLIGHT: i16 = 3;
    pub(crate) const MISSING: i16 = 4;
    pub(crate) const REMOVED_IN_FLIGHT: i16 = 5;
    pub(crate) const IN_FLIGHT: i16 = 6;
    pub(crate) const MOVED: i16 = 7;
    pub(crate) const MEMBER_MISSING: i16 = 8;
    pub(crate) const FENCED: i16 = 9;
}

/// Results by the number of their change.
#[derive(Debug, Default)]
pub(crate) struct Results {
    codes: HashMap<usize, (i16, Option<DurableId>)>,
    members: HashMap<usize, Vec<DurableId>>,
    moved: HashMap<usize, Arc<Record>>,
    /// Indices of fenced groups in the plan.
    pub(crate) fenced: Vec<usize>,
}

impl Results {
    pub(crate) fn add(&mut self, ord: i32, code: i16, other: Option<DurableId>, moved: Option<Arc<Record>>) {
        let ord = usize::try_from(ord).unwrap_or(usize::MAX);
        match (code, other, moved) {
            (code::FENCED, ..) => self.fenced.push(ord),
            (code::MEMBER_MISSING, Some(id), _) => self.members.entry(ord).or_default().push(id),
            (code::MOVED, _, Some(record)) => _ = self.moved.insert(ord, record),
            (_, other, _) => _ = self.codes.insert(ord, (code, other)),
        }
    }

    /// Returns the outcomes of the groups that take part; `read` returns a pending record whose state the server has
    /// changed without saying to which.
    ///
    /// # Errors
    /// That of `read`.
    pub(crate) fn committed<E>(
        mut self,
        groups: &[Group<'_>],
        plan: &Plan,
        mut read: impl FnMut(DurableId) -> Result<Option<Arc<Record>>, E>,
    ) -> Result<Vec<Committed>, E> {
        let mut of_keys = HashMap::new();
        for (ord, chain) in &plan.chains {
            let row = match self.codes.get(ord) {
                Some((code::EXISTS, Some(id))) => KeyOutcome::Exists(*id),
                Some((code::REPLACED, Some(id))) => KeyOutcome::Replaced(*id),
                Some((code::REPLACED_IN_FLIGHT, Some(id))) => KeyOutcome::ReplacedInFlight(*id),
                _ => KeyOutcome::Free,
            };
            of_keys.extend(chain.outcomes(row));
        }
        let mut committed: Vec<_> = groups.iter().map(|_| Committed::Fenced).collect();
        let first_ords = first_ords(groups);
        for &number in &plan.groups {
            let mut outcomes = Vec::with_capacity(groups[number].changes.len());
            for (index, change) in groups[number].changes.iter().enumerate() {
                let ord = first_ords[number] + index;
                let outcome = match of_keys.remove(&ord) {
                    Some(outcome) => outcome,
                    None => self.outcome(ord, change, &mut read)?,
                };
                outcomes.push(outcome);
            }
            committed[number] = Committed::Outcomes(outcomes);
        }
        Ok(committed)
    }

    fn outcome<E>(
        &mut self,
        ord: usize,
        change: &Change,
        read: &mut impl FnMut(DurableId) -> Result<Option<Arc<Record>>, E>,
    ) -> Result<ChangeOutcome, E> {
        match self.codes.get(&ord) {
            Some((code::MISSING, _)) => return Ok(ChangeOutcome::Missing),
            Some((code::REMOVED_IN_FLIGHT, _)) => return Ok(ChangeOutcome::RemovedInFlight),
            Some((code::IN_FLIGHT, _)) => return Ok(ChangeOutcome::InFlight),
            // Its record is damaged, as its next load reports.
            Some((code::MOVED, _)) => return Ok(ChangeOutcome::Done),
            _ => {}
        }
        Ok(match change {
            Change::Put { .. } => ChangeOutcome::Created,
            Change::Remove { .. }
            | Change::Park { .. }
            | Change::Discard { .. }
            | Change::DeadLetter { then: None, .. } => ChangeOutcome::Removed,
            Change::Move { id, .. }
            | Change::DeadLetter { id, .. }
            | Change::Requeue { id, .. }
            | Change::Unpark { id } => {
                let moved = match self.moved.remove(&ord) {
                    Some(record) => Some(record),
                    None => read(*id)?,
                };
                // It was made, and perhaps a delivery has ended before a lost reply was replaced.
                moved.map_or(ChangeOutcome::Done, ChangeOutcome::Moved)
            }
            Change::Claim(_) => match self.members.remove(&ord) {
                Some(missing) => ChangeOutcome::Claimed { missing },
                None => ChangeOutcome::Done,
            },
            _ => ChangeOutcome::Done,
        })
    }
}
