//! The events that are possible in a state, their effects, and what holds in every state.

use super::state::{Change, Next, Pause, Phase, State, Transaction};
use super::{Budget, Event, Failure, Rule, Start, World};

#[derive(Default)]
struct Events(Vec<Event>);

impl Events {
    fn add(&mut self, event: Event, is_possible: bool) {
        self.0.extend(is_possible.then_some(event));
    }
}

impl World {
    pub(super) fn events(&self, state: &State) -> Vec<Event> {
        let mut events = Events::default();
        events.add(Event::Tick, state.time < self.scenario.end);
        for session in 0..state.sessions.len() {
            events.add(Event::Proceed(session), self.may_proceed(state, session));
            events.add(Event::SessionEnds(session), state.sessions[session].is_ending);
        }
        for process in 0..state.processes.len() {
            self.add_steps(state, process, &mut events);
            self.add_faults(state, process, &mut events);
        }
        self.add_clients(state, &mut events);
        self.add_transactions(state, &mut events);
        events.0
    }

    /// The steps of a process that follow by themselves.
    pub(super) fn steps(&self, state: &State, process: usize) -> Vec<Event> {
        let mut events = Events::default();
        self.add_steps(state, process, &mut events);
        events.add(Event::Restart(process), !state.processes[process].is_up && self.has_poison());
        events.0
    }

    /// Whether processes start again as often as one is killed.
    pub(super) fn has_poison(&self) -> bool {
        self.timers().iter().any(|timer| timer.is_poisoned)
    }

    fn add_steps(&self, state: &State, process: usize, events: &mut Events) {
        let (it, left) = (&state.processes[process], state.budget);
        let is_free = state.is_free(process);
        let has_joined = it.is_up && it.node.is_some();
        events.add(Event::Join(process), it.is_up && it.is_connected && !it.is_cut && it.node.is_none());
        let may_beat = is_free || it.is_cut && has_joined && !self.keeps(Rule::RenewedWhereItClaims);
        events.add(Event::Beat(process), may_beat && !self.is_steady(process));
        events.add(Event::Look(process), is_free);
        events.add(Event::Reconnect(process), it.is_up && !it.is_connected && !it.is_cut);
        for timer in 0..state.rows.len() {
            events.add(Event::StartHandler(process, timer), self.may_start(state, process, timer));
            let Some(held) = it.held(timer) else { continue };
            let is_ripe = held.is_running() && (held.phase == Phase::Completing || !self.timers()[timer].has_effect);
            if let Phase::Finished(next) = held.phase {
                events.add(Event::End(process, timer, next), is_free);
            }
            events.add(Event::End(process, timer, self.verdict(timer)), is_free && is_ripe);
            events.add(Event::End(process, timer, Next::Retry), is_free && is_ripe && left.retries > 0);
            events.add(Event::TimeOut(process, timer), is_free && held.is_running() && left.time_outs > 0);
            let may_open = state.transaction.is_none() && !state.is_locked(timer);
            let may_complete = self.timers()[timer].has_effect && held.phase == Phase::Running;
            events.add(Event::Complete(process, timer), may_open && may_complete);
        }
        events.add(Event::EndStray(process), is_free && !it.strays.is_empty());
        let may_release = it.releasing.is_some_and(|(node, _)| self.may_release(state, node));
        let begins_anew = !may_release && self.keeps(Rule::ReleaseTriesAnew);
        if is_free && (it.releasing.is_none() || begins_anew) {
            self.releasable(state, process).for_each(|(node, _)| events.add(Event::EndSessions(process, node), true));
        }
        events.add(Event::Release(process), is_free && may_release);
    }

    fn add_faults(&self, state: &State, process: usize, events: &mut Events) {
        let (it, mut left) = (&state.processes[process], state.budget);
        if self.is_steady(process) {
            left = Budget::default();
        }
        events.add(Event::Crash(process), it.is_up && left.crashes > 0);
        events.add(Event::Poison(process), self.is_poisoned(state, process));
        events.add(Event::Restart(process), !it.is_up && (left.restarts > 0 || self.has_poison()));
        events.add(Event::Disconnect(process), left.disconnects > 0 && state.session_of(process).is_some());
        events.add(Event::Cut(process), left.cuts > 0 && it.node.is_some() && !it.is_cut);
        events.add(Event::Suspend(process), left.suspends > 0 && it.is_up && state.time < self.scenario.end);
        let is_locked = |timer: usize| state.is_locked(timer);
        let may_leave = state.is_free(process) && it.held.iter().flatten().all(|held| !held.is_running());
        let may_leave = may_leave && !(0..state.rows.len()).any(is_locked);
        events.add(Event::Leave(process), left.departures > 0 && may_leave);
    }

    /// Whether a handler runs that kills its process.
    pub(super) fn is_poisoned(&self, state: &State, process: usize) -> bool {
        let it = &state.processes[process];
        let is_poisoned = |timer: usize| self.timers()[timer].is_poisoned;
        let runs = |timer: usize| it.held[timer].is_some_and(|held| held.is_running());
        it.strays.iter().any(|stray| is_poisoned(stray.timer))
            || (0..it.held.len()).any(|timer| is_poisoned(timer) && runs(timer))
    }

    fn add_clients(&self, state: &State, events: &mut Events) {
        let left = state.budget;
        events.add(Event::ClockBack, left.clock_back > 0 && state.time as i8 + state.ahead >= self.clock_back());
        events.add(Event::ClockForward, left.clock_forward > 0);
        for timer in 0..state.rows.len() {
            let (is_there, is_free) = (state.rows[timer].is_some(), !state.is_locked(timer));
            let is_new =
                self.timers()[timer].start == Start::Absent && !is_there && state.past[timer] == Default::default();
            events.add(Event::Put(timer), left.puts > 0 && is_new && state.transaction.is_none());
            events.add(Event::Cancel(timer), left.cancels > 0 && is_there && is_free);
            let is_claimed = state.rows[timer].as_ref().is_some_and(|row| row.node.is_some());
            events.add(Event::Move(timer), left.moves > 0 && is_there && is_free && !is_claimed);
            let may_return = state.letters[timer].is_some() || state.rows[timer].as_ref().is_some_and(|row| row.parked);
            events.add(Event::Return(timer), left.returns > 0 && may_return);
            for later in [false, true] {
                events.add(Event::SetDue { timer, later }, left.hands > 0 && is_there && is_free);
            }
            let may_open = state.transaction.is_none();
            events.add(Event::OpenPut(timer), left.inserts > 0 && is_new && may_open);
            let may_tear = !self.keeps(Rule::KeysInTheSameTable) && self.timers()[timer].has_key;
            events.add(Event::OpenPutWithKey(timer), left.puts > 0 && is_new && may_open && may_tear);
            events.add(Event::OpenCancel(timer), left.cancelling > 0 && is_there && is_free && may_open);
        }
        events.add(Event::Pause, left.pauses > 0 && state.pause == Pause::None);
        events.add(Event::Acknowledge, self.may_acknowledge(state));
        events.add(Event::Resume, state.pause == Pause::Acknowledged);
    }

    fn add_transactions(&self, state: &State, events: &mut Events) {
        let Some(open) = &state.transaction else { return };
        events.add(Event::TakeNumber, !open.has_number);
        events.add(Event::Commit, open.has_number && !open.hangs);
        events.add(Event::RollBack, !open.hangs);
    }

    /// The state after an event.
    pub(super) fn after(&self, before: &State, event: Event) -> Result<State, Failure> {
        let mut after = before.clone();
        let state = &mut after;
        let budget = &mut state.budget;
        match event {
            Event::Crash(_) => budget.crashes -= 1,
            Event::Restart(_) => budget.restarts = budget.restarts.saturating_sub(1),
            Event::Disconnect(_) => budget.disconnects -= 1,
            Event::Cut(_) => budget.cuts -= 1,
            Event::Suspend(_) => budget.suspends -= 1,
            Event::ClockBack => budget.clock_back -= 1,
            Event::ClockForward => budget.clock_forward -= 1,
            Event::Leave(_) => budget.departures -= 1,
            Event::TimeOut(..) => budget.time_outs -= 1,
            Event::End(_, _, Next::Retry) => budget.retries = budget.retries.saturating_sub(1),
            Event::Put(_) | Event::OpenPutWithKey(_) => budget.puts -= 1,
            Event::Cancel(_) => budget.cancels -= 1,
            Event::Move(_) => budget.moves -= 1,
            Event::Return(_) => budget.returns -= 1,
            Event::Pause => budget.pauses -= 1,
            Event::SetDue { .. } => budget.hands -= 1,
            Event::OpenPut(_) => budget.inserts -= 1,
            Event::OpenCancel(_) => budget.cancelling -= 1,
            _ => {}
        }
        self.change(state, event)?;
        self.check(before, state)?;
        Ok(after)
    }

    fn change(&self, state: &mut State, event: Event) -> Result<(), Failure> {
        match event {
            Event::Tick => self.tick(state),
            Event::Proceed(session) => self.proceed(state, session)?,
            Event::Join(process) => self.join(state, process),
            Event::Beat(process) => self.beat(state, process),
            Event::Look(process) => self.look(state, process),
            Event::StartHandler(process, timer) => self.start_handler(state, process, timer)?,
            Event::End(process, timer, next) => self.send_end(state, process, timer, next),
            Event::TimeOut(process, timer) => self.time_out(state, process, timer),
            Event::EndStray(process) => self.end_stray(state, process),
            Event::EndSessions(process, node) => {
                let seen = self.releasable(state, process).find(|(id, _)| *id == node);
                seen.into_iter().for_each(|seen| self.end_sessions(state, process, seen));
            }
            Event::SessionEnds(session) => {
                let session = state.sessions.remove(session);
                session.process.into_iter().for_each(|process| state.processes[process].is_connected = false);
            }
            Event::Release(process) => self.release(state, process)?,
            Event::Reconnect(process) => self.reconnect(state, process),
            Event::Restart(process) => self.restart(state, process),
            Event::Leave(process) => self.leave(state, process),
            Event::Crash(process) | Event::Poison(process) => self.crash(state, process),
            Event::Disconnect(process) => self.disconnect(state, process),
            Event::Cut(process) => self.cut(state, process),
            Event::Suspend(process) => self.suspend(state, process),
            Event::ClockBack => state.ahead -= self.clock_back(),
            Event::ClockForward => state.ahead += super::LEASE as i8 + 1,
            Event::Put(timer) => self.put(state, timer)?,
            Event::Cancel(timer) => self.cancel(state, timer),
            Event::Move(timer) => self.move_to(state, timer, state.server_now() + 1),
            Event::Return(timer) => self.return_timer(state, timer),
            Event::SetDue { timer, later } => self.set_due_by_hand(state, timer, later),
            Event::Pause => state.pause = Pause::Set,
            Event::Acknowledge => state.pause = Pause::Acknowledged,
            Event::Resume => state.pause = Pause::None,
            Event::OpenPut(timer) => self.open_put(state, timer),
            Event::OpenCancel(timer) => self.open(state, Change::Cancel { timer }),
            Event::OpenPutWithKey(timer) => self.open_put_with_key(state, timer),
            Event::Complete(process, timer) => self.complete(state, process, timer),
            Event::TakeNumber => {
                state.transaction = state.transaction.take().map(|open| Transaction { has_number: true, ..open });
            }
            Event::Commit => self.commit(state)?,
            Event::RollBack => state.transaction = None,
        }
        Ok(())
    }

    /// A small step back, or one beyond all leases.
    fn clock_back(&self) -> i8 {
        if self.scenario.begin > 0 { super::LEASE as i8 + 2 } else { 1 }
    }

    /// Checks what holds in every state.
    fn check(&self, before: &State, after: &State) -> Result<(), Failure> {
        for (timer, row) in after.rows.iter().enumerate() {
            let Some(row) = row else { continue };
            if row.node.is_some_and(|node| after.node(node).is_none()) {
                return Err(Failure::Orphaned(timer));
            }
            if before.rows[timer].as_ref().is_some_and(|before| row.delivery < before.delivery) {
                return Err(Failure::AttemptFell(timer));
            }
        }
        Ok(())
    }
}
