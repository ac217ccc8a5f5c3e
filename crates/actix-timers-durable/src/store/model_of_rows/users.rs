//! Clients, operators, and transactions of users at the server.

use super::state::{Change, Delivery, Held, Next, Pause, Phase, Row, State, Transaction};
use super::{Failure, Rule, World};

/// The time from now to which a hand sets a due time.
const LATER: u8 = 4;

impl World {
    fn new_row(&self, timer: usize, server_now: u8) -> Row {
        let mut row = Row {
            due: 0,
            moved: false,
            node: None,
            alone: false,
            used: 0,
            delivery: Delivery { repetition: 1, attempt: 0 },
            parked: false,
            ended: false,
        };
        let wish = self.timers()[timer].due;
        self.set_due(&mut row, timer, wish, server_now);
        row
    }

    fn insert(&self, state: &mut State, timer: usize, row: Row) -> Result<(), Failure> {
        let has_key = |other: usize| other != timer && self.timers()[timer].has_key && self.timers()[other].has_key;
        if (0..state.past.len()).any(|other| has_key(other) && state.past[other].handled) {
            return Err(Failure::Duplicate(timer));
        }
        state.rows[timer] = Some(row);
        state.past[timer].promised = true;
        Ok(())
    }

    /// Whether another timer has the key, pending or ended, as far as one statement sees.
    fn has_rival(&self, state: &State, timer: usize, is_seen: impl Fn(&Row) -> bool) -> bool {
        let mut others = (0..state.rows.len()).filter(|other| *other != timer && self.timers()[*other].has_key);
        self.timers()[timer].has_key && others.any(|other| state.rows[other].as_ref().is_some_and(&is_seen))
    }

    pub(super) fn put(&self, state: &mut State, timer: usize) -> Result<(), Failure> {
        if self.has_rival(state, timer, |_| true) {
            return Ok(());
        }
        self.insert(state, timer, self.new_row(timer, state.server_now()))
    }

    fn is_shown(&self, row: &Row, rule: Rule) -> bool {
        !row.ended || !self.keeps(rule)
    }

    pub(super) fn cancel(&self, state: &mut State, timer: usize) {
        let shown = |row: &mut Row| self.is_shown(row, Rule::CancelLeavesEnded);
        if let Some(row) = state.rows[timer].take_if(shown) {
            state.past[timer].cancelled = row.node.is_none();
            state.past[timer].promised = false;
        }
    }

    pub(super) fn move_to(&self, state: &mut State, timer: usize, wish: u8) {
        let server_now = state.server_now();
        let shown = |row: &&mut Row| row.node.is_none() && self.is_shown(row, Rule::MoveLeavesEnded);
        if let Some(row) = state.rows[timer].as_mut().filter(shown) {
            self.set_due(row, timer, wish, server_now);
            state.past[timer].handled = false;
        }
    }

    /// Requeues a dead letter, or lets a parked timer be claimed.
    pub(super) fn return_timer(&self, state: &mut State, timer: usize) {
        let server_now = state.server_now();
        if state.rows[timer].is_none() {
            state.rows[timer] = state.letters[timer].take();
        }
        let Some(row) = &mut state.rows[timer] else { return };
        (row.parked, row.used) = (false, 0);
        state.past[timer].promised = true;
        if self.keeps(Rule::ReturnWritesDue) {
            let due = row.due;
            self.set_due(row, timer, due, server_now);
        }
    }

    /// `UPDATE .. SET due`, with the trigger.
    pub(super) fn set_due_by_hand(&self, state: &mut State, timer: usize, later: bool) {
        let server_now = state.server_now();
        let wish = if later { server_now + LATER } else { 0 };
        let Some(row) = &mut state.rows[timer] else { return };
        if row.node.is_some() && self.keeps(Rule::HandsLeaveTheClaimed) {
            return;
        }
        match self.keeps(Rule::TriggerGuardsHands) {
            true => self.set_due(row, timer, wish, server_now),
            false => row.due = wish,
        }
    }

    pub(super) fn open(&self, state: &mut State, change: Change) {
        let has_number = !matches!(change, Change::Put { .. }) || self.keeps(Rule::NumberBeforeClock);
        state.transactions += 1;
        state.transaction = Some(Transaction { number: state.transactions, has_number, change, hangs: false });
    }

    pub(super) fn open_put(&self, state: &mut State, timer: usize) {
        let due = self.new_row(timer, state.server_now()).due;
        self.open(state, Change::Put { timer, due });
    }

    pub(super) fn complete(&self, state: &mut State, process: usize, timer: usize) {
        let it = &mut state.processes[process];
        let (Some(node), Some(held)) = (it.node, it.held[timer]) else { return };
        let is_its =
            |row: &Row| row.node == Some(node) && row.delivery == held.delivery || !self.keeps(Rule::CompleteIsFenced);
        let fits = state.rows[timer].as_ref().is_some_and(is_its);
        it.held[timer] = Some(Held { phase: Phase::Completing, ..held });
        if fits || !self.keeps(Rule::CompleteFailsWithoutRow) {
            self.open(state, Change::Complete { timer, process, node, fits });
        }
    }

    pub(super) fn commit(&self, state: &mut State) -> Result<(), Failure> {
        let Some(Transaction { change, .. }) = state.transaction.take() else { return Ok(()) };
        match change {
            Change::Put { timer, due } => {
                let mut row = self.new_row(timer, due);
                self.set_due(&mut row, timer, due, due);
                return self.insert(state, timer, row);
            }
            Change::PutWithKey { timer } if !self.has_rival(state, timer, |row| !row.ended) => {
                return self.insert(state, timer, self.new_row(timer, state.server_now()));
            }
            Change::PutWithKey { .. } => {}
            Change::Cancel { timer } => self.cancel(state, timer),
            Change::Complete { timer, fits, .. } => {
                let past = &mut state.past[timer];
                past.effects += 1;
                if past.effects > 1 {
                    return Err(Failure::EffectTwice(timer));
                }
                if fits {
                    state.rows[timer] = None;
                    past.handled = true;
                }
            }
        }
        Ok(())
    }

    /// Opens a put that first looks into the second table of keys.
    pub(super) fn open_put_with_key(&self, state: &mut State, timer: usize) {
        if !self.has_rival(state, timer, |row| row.ended) {
            self.open(state, Change::PutWithKey { timer });
        }
    }

    pub(super) fn end_transaction_of(&self, state: &mut State, node: u8) {
        let is_its = |open: &Transaction| matches!(open.change, Change::Complete { node: of, .. } if of == node);
        state.transaction = state.transaction.take().filter(|open| !is_its(open));
    }

    /// The verdict of a handler that has called `complete_in`.
    pub(super) fn verdict(&self, timer: usize) -> Next {
        match self.timers()[timer].has_effect && self.keeps(Rule::VerdictRetriesUnlessGone) {
            true => Next::RetryUnlessGone,
            false => Next::Delete,
        }
    }

    /// Whether the lock of all nodes' rows can be had.
    pub(super) fn may_acknowledge(&self, state: &State) -> bool {
        let is_free = (0..state.nodes.len() as u8).all(|node| !state.is_node_locked(node));
        state.pause == Pause::Set && (is_free || !self.keeps(Rule::PauseLocksNodes))
    }
}
