//! The steps of a process: it joins, beats, looks, claims, runs handlers, and releases nodes that died.

use super::state::{
    BeatReply, Delivery, Held, Mask, Next, NodeRow, Phase, Process, ROUTES, Request, Row, Session, Stage, State, Stray,
    Suspects,
};
use super::statements::timers_in;
use super::{Failure, LEASE, Rule, World};

impl World {
    pub(super) fn join(&self, state: &mut State, process: usize) {
        let id = state.nodes.len() as u8;
        let lease_until = state.server_now() + LEASE;
        let time = state.time;
        state.nodes.push(Some(NodeRow { lease_until, renewed_at: time, dead: false, claimed_until: lease_until }));
        let (server_now, paused) = (state.server_now(), state.paused());
        let it = &mut state.processes[process];
        it.look_from_the_beginning();
        (it.node, it.lease, it.server_time) = (Some(id), time + LEASE, (server_now, time));
        (it.must_sweep, it.paused) = (false, paused);
        if self.keeps(Rule::JoinsAnewWithNothing) {
            it.held.iter_mut().for_each(|held| *held = None);
        }
    }

    fn send(&self, state: &mut State, process: usize, request: Request) {
        if let Some(node) = state.processes[process].node {
            state.sessions.push(Session {
                node,
                process: Some(process),
                request,
                stage: Stage::Sent,
                is_ending: false,
            });
            // The order tells nothing.
            state.sessions.sort_by_key(|session| (session.node, session.process));
        }
    }

    pub(super) fn beat(&self, state: &mut State, process: usize) {
        let time = state.time;
        let it = &mut state.processes[process];
        let sweeps = self.keeps(Rule::SweepFindsUnknownClaims)
            && (self.keeps(Rule::SweepsRepeatedly) || std::mem::take(&mut it.must_sweep));
        let known: Vec<_> = it.held.iter().map(|held| held.map(|held| held.delivery)).collect();
        let Some(node) = it.node else { return };
        // On another connection.
        let is_elsewhere = it.is_cut;
        if self.scenario.has_slow_beats && !is_elsewhere && !self.is_steady(process) {
            self.send(state, process, Request::Beat { sent_at: time, sweeps, known });
        } else {
            let reply = self.renew(state, node, (sweeps && !is_elsewhere).then_some(&known));
            self.beaten(state, process, time, &reply);
        }
    }

    /// The reply of a beat arrives.
    pub(super) fn beaten(&self, state: &mut State, process: usize, sent_at: u8, reply: &BeatReply) {
        let time = state.time;
        let it = &mut state.processes[process];
        if !reply.renewed {
            it.node = None;
            return;
        }
        it.lease = LEASE + if self.keeps(Rule::LeaseCountsFromBefore) { sent_at } else { time };
        let (server_time, own_time) = it.server_time;
        let least = match self.keeps(Rule::ClockBackSeenByOwnClock) {
            true => server_time + (time - own_time),
            false => server_time,
        };
        if self.scenario.budget.clock_back > 0 {
            it.server_time = (reply.server_time, time);
        }
        let has_gone_back = self.scenario.budget.clock_back > 0 && reply.server_time < least;
        if has_gone_back && self.keeps(Rule::ClockBackResetsBound) {
            it.look_from_the_beginning();
        }
        let is_there = |id: u8| reply.nodes.iter().any(|(node, _)| *node == id);
        if it.seen.iter().any(|(id, ..)| !is_there(*id)) && self.keeps(Rule::FromTheBeginningWhenVanished) {
            it.look_from_the_beginning();
        }
        let others = reply.nodes.iter().filter(|(id, _)| Some(*id) != it.node);
        let seen = others.map(|(id, lease)| {
            let before = it.seen.iter().find(|(known, last, _)| known == id && last == lease);
            (*id, *lease, before.map_or(time, |(.., since)| *since))
        });
        it.seen = seen.collect();
        it.paused = reply.paused;
        for (timer, held) in it.held.iter_mut().enumerate() {
            let Some(Held { delivery, phase, .. }) = *held else { continue };
            let is_lost = reply.own & 1 << timer == 0 && matches!(phase, Phase::Running | Phase::Completing);
            if is_lost && !self.keeps(Rule::CancelledHandlersCount) {
                *held = None;
                it.strays.push(Stray { timer, delivery });
            }
        }
    }

    pub(super) fn look(&self, state: &mut State, process: usize) {
        let server_now = state.server_now();
        let (paused, open) = (state.paused(), state.transaction.as_ref());
        let open = open.filter(|open| open.has_number).map(|open| open.number);
        let it = &state.processes[process];
        let begins = it.bounds.map(|bound| match self.keeps(Rule::LookBehindOpenTransactions) {
            true => bound.min(it.safe),
            false => bound,
        });
        let hinted = |timer: usize, row: &Row| {
            let route = self.timers()[timer].route;
            let may_be_claimed = row.is_pending() && paused & 1 << route == 0
                || row.ended && !self.keeps(Rule::LookLeavesEnded)
                || row.is_pending() && !self.keeps(Rule::LookFiltersAsClaims);
            let at = self.indexed(timer, row).filter(|at| (begins[route]..=server_now).contains(at));
            at.filter(|_| may_be_claimed).map(|_| (row.due, timer))
        };
        let found = state.rows.iter().enumerate().filter_map(|(timer, row)| hinted(timer, row.as_ref()?));
        let mut found: Vec<(u8, usize)> = found.collect();
        found.sort_unstable();
        found.truncate(self.scenario.limit);
        let until = found.first().map_or(server_now, |(due, _)| (*due).min(server_now));
        let it = &mut state.processes[process];
        let left_out = if self.keeps(Rule::LookNamesWhatItLeftOut) { paused } else { it.paused };
        for (route, bound) in it.bounds.iter_mut().enumerate().take(ROUTES) {
            if left_out & 1 << route == 0 || !self.keeps(Rule::LeftOutKeepsItsBound) {
                *bound = until;
            }
        }
        if self.scenario.budget.inserts == 0 {
            it.safe = u8::MAX;
        } else if let Some((time, _)) = it.sample.filter(|(_, number)| number.is_none() || *number != open) {
            (it.safe, it.sample) = (time, Some((server_now, open)));
        } else {
            it.sample = it.sample.or(Some((server_now, open)));
        }
        self.claim(state, process, &found.iter().map(|(_, timer)| *timer).collect::<Vec<_>>());
    }

    /// Whether a process may claim suspects or others now.
    fn may_claim(&self, it: &Process, suspects: bool) -> bool {
        let mut held = it.held.iter().flatten();
        match suspects {
            true => held.next().is_none() || !self.keeps(Rule::SuspectWithNothingRunning),
            false => !held.any(|held| held.alone) || !self.keeps(Rule::NothingBesideASuspect),
        }
    }

    /// Claims found timers: all that are no suspects together, or one suspect.
    fn claim(&self, state: &mut State, process: usize, found: &[usize]) {
        let it = &state.processes[process];
        let is_suspect = |timer: &usize| state.rows[*timer].as_ref().is_some_and(|row| self.is_suspect(row));
        let others = found.iter().filter(|timer| !is_suspect(timer)).fold(0, |ids, timer| ids | 1 << timer);
        let suspect = found.iter().copied().find(is_suspect);
        let request = match suspect {
            _ if state.time >= it.lease => return,
            _ if others != 0 && self.may_claim(it, false) => Request::Claim { ids: others, suspects: Suspects::Left },
            Some(timer) if self.may_claim(it, true) => {
                let is_unmarked = it.has_timed_out && self.keeps(Rule::TimeOutLeavesUnmarked);
                let suspects = if is_unmarked { Suspects::Unmarked } else { Suspects::Marked };
                Request::Claim { ids: 1 << timer, suspects }
            }
            _ => return,
        };
        self.send(state, process, request);
    }

    /// The reply of a claim arrives.
    pub(super) fn claimed(&self, state: &mut State, process: usize, node: u8, ids: Mask, suspects: Suspects) {
        let it = &mut state.processes[process];
        for timer in timers_in(ids).filter(|_| it.node == Some(node)) {
            let delivery = state.rows[timer].as_ref().map_or_else(Delivery::default, |row| row.delivery);
            it.held[timer] = Some(Held { delivery, alone: suspects != Suspects::Left, phase: Phase::Claimed });
        }
    }

    pub(super) fn may_start(&self, state: &State, process: usize, timer: usize) -> bool {
        let it = &state.processes[process];
        let is_claimed = it.held(timer).is_some_and(|held| held.phase == Phase::Claimed);
        it.is_up && is_claimed && (state.time < it.lease || !self.keeps(Rule::LeaseCheckedBeforeHandler))
    }

    pub(super) fn start_handler(&self, state: &mut State, process: usize, timer: usize) -> Result<(), Failure> {
        let node = state.processes[process].node;
        let Some(held) = &mut state.processes[process].held[timer] else { return Ok(()) };
        let past = &mut state.past[timer];
        if past.cancelled {
            return Err(Failure::StartedAfterCancel(timer));
        }
        if held.delivery <= past.started {
            return Err(Failure::StartedTwice(timer));
        }
        // Without a row: a cancel has found it in progress.
        let is_its = |row: &Row| row.node == node && row.delivery == held.delivery;
        if state.rows[timer].as_ref().is_some_and(|row| !is_its(row)) {
            return Err(Failure::StartedWithoutClaim(timer));
        }
        past.started = held.delivery;
        held.phase = Phase::Running;
        Ok(())
    }

    pub(super) fn send_end(&self, state: &mut State, process: usize, timer: usize, next: Next) {
        let Some(held) = &mut state.processes[process].held[timer] else { return };
        held.phase = Phase::Finished(next);
        let delivery = held.delivery;
        self.send(state, process, Request::End { timer, delivery, next });
    }

    /// The reply of an end arrives.
    pub(super) fn ended(&self, state: &mut State, process: usize, timer: usize, delivery: Delivery) {
        let held = &mut state.processes[process].held[timer];
        if held.is_some_and(|held| held.delivery == delivery) {
            *held = None;
        }
    }

    pub(super) fn time_out(&self, state: &mut State, process: usize, timer: usize) {
        let it = &mut state.processes[process];
        it.has_timed_out = true;
        it.strays.extend(it.held[timer].map(|held| Stray { timer, delivery: held.delivery }));
        self.send_end(state, process, timer, Next::Retry);
    }

    pub(super) fn end_stray(&self, state: &mut State, process: usize) {
        let Some(Stray { timer, delivery }) = state.processes[process].strays.pop() else { return };
        self.send(state, process, Request::End { timer, delivery, next: Next::Delete });
    }

    /// The node that a process may release, with its lease as seen: it was the same for a whole one.
    pub(super) fn releasable(&self, state: &State, process: usize) -> impl Iterator<Item = (u8, u8)> {
        let time = state.time;
        let is_dead = |id: u8| state.node(id).filter(|row| row.dead).map(|row| (id, row.renewed_at));
        let is_over = move |since: u8| time - since >= LEASE || !self.keeps(Rule::ReleaseAfterLeaseSeenUnchanged);
        let over = state.processes[process].seen.iter().filter(move |(.., since)| is_over(*since));
        let over = over.map(|(id, lease, _)| (*id, *lease));
        let over = over.filter(move |(id, _)| {
            state.node(*id).is_some_and(|row| !row.dead && row.lease_until < state.server_now())
        });
        let own = state.processes[process].node;
        (0..state.nodes.len() as u8)
            .filter(move |id| Some(*id) != own)
            .filter_map(is_dead)
            .chain(over)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Ends the sessions of a dead node, and the users' transactions that hold its lock.
    pub(super) fn end_sessions(&self, state: &mut State, process: usize, node: (u8, u8)) {
        state.processes[process].releasing = Some(node);
        if !self.keeps(Rule::ReleaseEndsSessions) {
            return;
        }
        for session in state.sessions.iter_mut().filter(|session| session.node == node.0) {
            session.is_ending = true;
        }
        if self.keeps(Rule::CompleteTakesNodesLock) {
            self.end_transaction_of(state, node.0);
        }
    }

    pub(super) fn release(&self, state: &mut State, process: usize) -> Result<(), Failure> {
        let Some((node, lease)) = state.processes[process].releasing.take() else { return Ok(()) };
        let (is_released, time) = (self.release_rows(state, node, lease)?, state.time);
        let it = &mut state.processes[process];
        if is_released && self.keeps(Rule::FromTheBeginningWhenVanished) {
            it.look_from_the_beginning();
        }
        // After a refusal, its lease is watched anew.
        it.seen.iter_mut().filter(|(id, ..)| *id == node).for_each(|(.., since)| *since = time);
        Ok(())
    }
}
