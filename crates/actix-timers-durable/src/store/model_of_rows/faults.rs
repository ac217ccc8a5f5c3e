//! Faults: processes that crash, stop or are suspended, lost connections, and clocks that are set.

use super::state::{Change, Process, Stage, State};
use super::{LEASE, Rule, World};

impl World {
    pub(super) fn restart(&self, state: &mut State, process: usize) {
        let held = vec![None; self.timers().len()];
        state.processes[process] = Process { is_up: true, is_connected: true, held, ..Process::default() };
    }

    /// The server goes on with the request of a process that is gone, or keeps its locks for ever.
    pub(super) fn crash(&self, state: &mut State, process: usize) {
        self.disconnect(state, process);
        state.processes[process] = Process::default();
        if let Some(open) = &mut state.transaction {
            open.hangs |= matches!(open.change, Change::Complete { process: of, .. } if of == process);
        }
    }

    pub(super) fn disconnect(&self, state: &mut State, process: usize) {
        state.processes[process].is_connected = false;
        for session in state.sessions.iter_mut().filter(|session| session.process == Some(process)) {
            session.process = None;
        }
        // Nobody waits for these.
        state.sessions.retain(|session| session.process.is_some() || !matches!(session.stage, Stage::Replied(_)));
        state.sessions.sort_by_key(|session| (session.node, session.process));
    }

    pub(super) fn reconnect(&self, state: &mut State, process: usize) {
        let it = &mut state.processes[process];
        (it.is_connected, it.must_sweep) = (true, true);
        let node = it.node;
        if self.keeps(Rule::NewSessionEndsTheOld) {
            state.sessions.retain(|session| Some(session.node) != node);
        }
    }

    pub(super) fn cut(&self, state: &mut State, process: usize) {
        self.disconnect(state, process);
        state.processes[process].is_cut = true;
    }

    pub(super) fn is_steady(&self, process: usize) -> bool {
        process + self.scenario.steady >= self.scenario.processes
    }

    /// A unit of time, during which the process stands still.
    pub(super) fn suspend(&self, state: &mut State, process: usize) {
        if !self.keeps(Rule::LeaseRunsDuringSuspend) {
            state.processes[process].lease += 1;
        }
        self.tick(state);
    }

    pub(super) fn tick(&self, state: &mut State) {
        state.time += 1;
        let time = state.time;
        for process in &mut state.processes {
            // No older time makes a difference.
            process.lease = if process.lease > time { process.lease } else { 0 };
            process.seen.iter_mut().for_each(|(.., since)| *since = (*since).max(time.saturating_sub(LEASE)));
        }
        for process in (0..state.processes.len()).filter(|process| self.is_steady(*process)) {
            if state.is_free(process) {
                self.beat(state, process);
            }
        }
    }

    /// Stops a process in good order: it gives its claims back, and deletes its node.
    pub(super) fn leave(&self, state: &mut State, process: usize) {
        let server_now = state.server_now();
        let Some(node) = state.processes[process].node else { return };
        for (timer, row) in state.rows.iter_mut().enumerate() {
            if let Some(row) = row.as_mut().filter(|row| row.node == Some(node)) {
                self.give_back(row, timer, server_now);
            }
        }
        state.nodes[usize::from(node)] = None;
        state.processes[process] = Process::default();
    }
}
