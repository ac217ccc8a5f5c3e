//! Requests of nodes at the server: claims in their steps, ends, beats with sweeps, and releases.

use super::state::{BeatReply, Delivery, Mask, Next, NodeRow, Pause, Request, Row, Stage, State, Suspects};
use super::{Failure, LEASE, Rule, World};

/// The time from now until an attempt is repeated.
const RETRY_DELAY: u8 = 1;

impl World {
    /// Whether a request can proceed: nothing waits for a lock here that a stranger may keep.
    pub(super) fn may_proceed(&self, state: &State, index: usize) -> bool {
        match &state.sessions[index].request {
            Request::End { timer, .. } => !state.is_locked(*timer) || self.keeps(Rule::EndLeavesTheLocked),
            Request::Claim { .. } | Request::Beat { .. } => true,
        }
    }

    pub(super) fn proceed(&self, state: &mut State, index: usize) -> Result<(), Failure> {
        let session = state.sessions[index].clone();
        match (session.request, session.stage) {
            (Request::Claim { .. }, Stage::Sent) if !self.keeps(Rule::ClaimLocksItsNode) => {
                self.update(state, index, None)
            }
            (Request::Claim { .. }, Stage::Sent) if !self.keeps(Rule::ClaimLocksInAStatementOfItsOwn) => {
                state.sessions[index].stage = Stage::Begun(state.paused());
                Ok(())
            }
            (Request::Claim { .. }, Stage::Sent | Stage::Replied(_)) => self.lock_node(state, index, None),
            (Request::Claim { .. }, Stage::Begun(paused)) => self.lock_node(state, index, Some(paused)),
            (Request::Claim { .. }, Stage::Locked(paused)) => self.update(state, index, paused),
            (Request::Claim { suspects, .. }, Stage::Updated(ids)) => {
                self.commit_claim(state, session.node, ids, suspects)?;
                state.sessions.remove(index);
                if let Some(process) = session.process {
                    self.claimed(state, process, session.node, ids, suspects);
                }
                Ok(())
            }
            // It is repeated.
            (Request::End { timer, .. }, _) if state.is_locked(timer) => {
                state.sessions.remove(index);
                Ok(())
            }
            (Request::End { timer, delivery, next }, _) => {
                self.end(state, session.node, (timer, delivery), next)?;
                state.sessions.remove(index);
                if let Some(process) = session.process {
                    self.ended(state, process, timer, delivery);
                }
                Ok(())
            }
            (Request::Beat { sent_at, .. }, Stage::Replied(reply)) => {
                state.sessions.remove(index);
                if let Some(process) = session.process {
                    self.beaten(state, process, sent_at, &reply);
                }
                Ok(())
            }
            (Request::Beat { known, sweeps, .. }, _) => {
                let reply = self.renew(state, session.node, sweeps.then_some(&*known));
                match session.process {
                    Some(_) => state.sessions[index].stage = Stage::Replied(reply),
                    None => drop(state.sessions.remove(index)),
                }
                Ok(())
            }
        }
    }

    pub(super) fn is_suspect(&self, row: &Row) -> bool {
        self.scenario.max_attempts > 0 && row.used >= self.scenario.max_attempts
    }

    fn lock_node(&self, state: &mut State, index: usize, snapshot: Option<Mask>) -> Result<(), Failure> {
        // No failure was found where the dead may claim: such claims are released, too.
        match state.node(state.sessions[index].node).is_some_and(|node| !node.dead) {
            // Only a pause can come between.
            true if self.scenario.budget.pauses == 0 => return self.update(state, index, snapshot),
            true => state.sessions[index].stage = Stage::Locked(snapshot),
            // An empty reply, from which nothing follows.
            false => drop(state.sessions.remove(index)),
        }
        Ok(())
    }

    fn update(&self, state: &mut State, index: usize, snapshot: Option<Mask>) -> Result<(), Failure> {
        let Request::Claim { ids, suspects } = state.sessions[index].request else { return Ok(()) };
        let node = state.sessions[index].node;
        let paused = snapshot.unwrap_or(state.paused());
        let claimed_until = state.node(node).map_or(u8::MAX, |node| node.claimed_until);
        let until = match self.keeps(Rule::ClaimWithinClaimedUntil) {
            true => state.server_now().min(claimed_until),
            false => state.server_now(),
        };
        let is_suspect = |row: &Row| self.is_suspect(row);
        let is_claimable = |timer: usize, row: &Row| {
            let is_pending = (row.node.is_none() || !self.keeps(Rule::ClaimTakesOnlyPending))
                && !row.parked
                && (!row.ended || !self.keeps(Rule::ClaimLeavesEnded));
            let is_due = row.due <= until || !self.keeps(Rule::ClaimRechecksDue);
            is_pending
                && is_due
                && paused & 1 << self.timers()[timer].route == 0
                && is_suspect(row) == (suspects != Suspects::Left)
                && !state.is_locked(timer)
        };
        let mut updated = 0;
        for timer in timers_in(ids) {
            let Some(row) = state.rows[timer].as_ref().filter(|row| is_claimable(timer, row)) else { continue };
            if row.due > state.server_now() {
                return Err(Failure::ClaimedEarly(timer));
            }
            updated |= 1 << timer;
        }
        state.sessions[index].stage = Stage::Updated(updated);
        Ok(())
    }

    fn commit_claim(&self, state: &mut State, node: u8, ids: Mask, suspects: Suspects) -> Result<(), Failure> {
        for timer in timers_in(ids) {
            let Some(row) = &mut state.rows[timer] else { continue };
            if row.ended {
                return Err(Failure::ClaimedAfterEnd(timer));
            }
            if row.node.is_some() {
                return Err(Failure::ClaimedFromAnother(timer));
            }
            if state.pause == Pause::Acknowledged && self.timers()[timer].route == 0 {
                return Err(Failure::ClaimedAfterPause(timer));
            }
            row.node = Some(node);
            row.used += u8::from(self.scenario.max_attempts > 0);
            row.alone |= suspects == Suspects::Marked;
            row.delivery.attempt += 1;
        }
        Ok(())
    }

    /// The due time of a statement that wishes one, and whether it differs from the id's.
    pub(super) fn set_due(&self, row: &mut Row, timer: usize, wish: u8, server_now: u8) {
        row.due = if self.keeps(Rule::DueIsAtLeastNow) { wish.max(server_now) } else { wish };
        if self.keeps(Rule::MovedIsWritten) {
            row.moved = row.due != self.timers()[timer].due;
        }
    }

    /// A row becomes claimable again, at the time at which it was.
    pub(super) fn give_back(&self, row: &mut Row, timer: usize, server_now: u8) {
        self.unclaim(row);
        row.used = row.used.saturating_sub(1);
        if self.keeps(Rule::GiveBackWritesDue) {
            let due = row.due;
            self.set_due(row, timer, due, server_now);
        }
    }

    fn unclaim(&self, row: &mut Row) {
        row.node = None;
        row.alone &= !self.keeps(Rule::MarkIsCleared);
    }

    fn end(&self, state: &mut State, node: u8, of: (usize, Delivery), next: Next) -> Result<(), Failure> {
        let (timer, delivery) = of;
        let server_now = state.server_now();
        let Some(row) = &mut state.rows[timer] else { return Ok(()) };
        let fits = (row.node == Some(node) || !self.keeps(Rule::EndFencedByNode))
            && (row.delivery.attempt == delivery.attempt || !self.keeps(Rule::EndFencedByAttempt))
            && (row.delivery.repetition == delivery.repetition || !self.keeps(Rule::EndFencedByRepetition));
        if row.ended || !fits {
            return Ok(());
        }
        if row.node != Some(node) || row.delivery != delivery {
            return Err(Failure::StaleEnd(timer));
        }
        self.unclaim(row);
        if next != Next::Delete {
            self.set_due(row, timer, server_now + RETRY_DELAY, server_now);
            return Ok(());
        }
        if self.timers()[timer].has_effect && state.past[timer].effects == 0 {
            return Err(Failure::EndWithoutEffect(timer));
        }
        if delivery.repetition <= self.timers()[timer].repetitions {
            row.delivery = Delivery { repetition: delivery.repetition + 1, attempt: 0 };
            row.used = 0;
            self.set_due(row, timer, server_now, server_now);
            return Ok(());
        }
        state.past[timer].handled = true;
        match self.timers()[timer].has_key {
            true => row.ended = true,
            false => state.rows[timer] = None,
        }
        Ok(())
    }

    /// Renews a lease, and gives back claims that are not among the known ones.
    pub(super) fn renew(&self, state: &mut State, node: u8, known: Option<&[Option<Delivery>]>) -> BeatReply {
        let (time, server_now) = (state.time, state.server_now());
        let row = &mut state.nodes[usize::from(node)];
        if row.is_none() && !self.keeps(Rule::RenewalInsertsNothing) {
            *row = Some(NodeRow { lease_until: 0, renewed_at: 0, dead: false, claimed_until: 0 });
        }
        let is_living = |row: &&mut NodeRow| !row.dead || !self.keeps(Rule::RenewalLeavesTheDead);
        let renewed = row.as_mut().filter(is_living).map(|row| {
            (row.lease_until, row.renewed_at, row.dead) = (server_now + LEASE, time, false);
            row.claimed_until =
                match (self.keeps(Rule::BeatRaisesClaimedUntil), self.keeps(Rule::ClaimedUntilNeverFalls)) {
                    (false, _) => row.claimed_until,
                    (_, false) => row.lease_until,
                    _ => row.claimed_until.max(row.lease_until),
                };
        });
        if let Some(known) = known.filter(|_| renewed.is_some()) {
            self.sweep(state, node, known);
        }
        let nodes = state.nodes.iter().enumerate().filter_map(|(id, row)| Some((id as u8, row.as_ref()?)));
        // A dead one that has rows left has not vanished: these become claimable later.
        let nodes = nodes.map(|(id, row)| (id, row.renewed_at)).collect();
        let is_own = |timer: &usize| state.rows[*timer].as_ref().is_some_and(|row| row.node == Some(node));
        let own = (0..state.rows.len()).filter(is_own).fold(0, |own, timer| own | 1 << timer);
        BeatReply { renewed: renewed.is_some(), server_time: server_now, nodes, paused: state.paused(), own }
    }

    fn sweep(&self, state: &mut State, node: u8, known: &[Option<Delivery>]) {
        let server_now = state.server_now();
        for timer in self.claimed_by(state, node) {
            let is_locked = state.is_locked(timer);
            let Some(row) = state.rows[timer].as_mut().filter(|_| !is_locked) else { continue };
            if known[timer] != Some(row.delivery) {
                self.give_back(row, timer, server_now);
            }
        }
    }

    /// The rows of a node, as far as the look's branches reach.
    fn claimed_by(&self, state: &State, node: u8) -> Vec<usize> {
        let claimed_until = state.node(node).map_or(0, |node| node.claimed_until);
        let until = match self.keeps(Rule::ReleaseLooksToClaimedUntil) {
            true => state.server_now().max(claimed_until),
            false => state.server_now(),
        };
        let is_its = |timer: &usize| {
            let row = state.rows[*timer].as_ref().filter(|row| row.node == Some(node));
            row.and_then(|row| self.indexed(*timer, row)).is_some_and(|at| at <= until)
        };
        (0..state.rows.len()).filter(is_its).collect()
    }

    /// Whether the release of a node finds its row locked.
    pub(super) fn may_release(&self, state: &State, node: u8) -> bool {
        !state.is_node_locked(node) || !self.keeps(Rule::ReleaseLocksTheNode)
    }

    /// Releases the rows of a node. Returns whether it was dead.
    pub(super) fn release_rows(&self, state: &mut State, node: u8, renewed_at: u8) -> Result<bool, Failure> {
        let Some(row) = state.node(node) else { return Ok(false) };
        let is_as_seen = row.renewed_at == renewed_at || !self.keeps(Rule::ReleaseComparesTheLease);
        let is_over = row.lease_until < state.server_now() && is_as_seen;
        if !row.dead && !is_over && self.keeps(Rule::ReleaseRechecksTheLease) {
            return Ok(false);
        }
        let rows = self.claimed_by(state, node);
        let is_only = rows.len() == 1 && !self.keeps(Rule::OnlyTheMarkBlames);
        let mut has_more = false;
        for timer in rows {
            if state.is_locked(timer) {
                has_more = true;
                continue;
            }
            let Some(row) = &mut state.rows[timer] else { continue };
            let is_suspect = self.is_suspect(row);
            let is_blamed = row.alone && self.keeps(Rule::MarkedIsBlamed) || is_only && is_suspect;
            self.unclaim(row);
            if is_blamed {
                if !self.timers()[timer].is_poisoned && self.scenario.budget.crashes == 0 {
                    return Err(Failure::BlamedWrongly(timer));
                }
                state.letters[timer] = state.rows[timer].take();
            }
        }
        let row = &mut state.nodes[usize::from(node)];
        if !has_more || !self.keeps(Rule::DeletesOnlyTheUnnamed) {
            *row = None;
        } else if let Some(row) = row {
            row.dead = self.keeps(Rule::MarksTheDead);
        }
        Ok(true)
    }
}

pub(super) fn timers_in(ids: Mask) -> impl Iterator<Item = usize> {
    (0..Mask::BITS as usize).filter(move |timer| ids & 1 << timer != 0)
}
