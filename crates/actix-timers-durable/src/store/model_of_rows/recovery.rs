//! Recovery: once faults and clients end, each living process goes on, and all promises must be kept.
//!
//! Each process beats and looks once in a unit of time. The next event of a recovery depends on the state and on this
//! alone, so recoveries of different states meet, and end there.

use rustc_hash::FxHashSet;

use super::search::fingerprint;
use super::state::{Change, Pause, State};
use super::{Event, Failure, LEASE, World};

/// Enough for a few crashes by poisoned timers, each with a release.
const LONGEST: u8 = 8 * (LEASE + 2);

impl World {
    /// Checks that all promises are kept from this state, else returns the way. `known`: the states of other recoveries.
    pub(super) fn recovers(&self, from: &State, known: &mut FxHashSet<u64>) -> Result<(), (Failure, Vec<Event>)> {
        let (mut state, mut events, mut done) = (from.clone(), Vec::new(), Vec::new());
        loop {
            let Some(open) = self.unkept(&state, |_| true) else { return Ok(()) };
            if done.is_empty() && !known.insert(fingerprint(&state)) {
                return Ok(());
            }
            if state.time > from.time + LONGEST {
                return Err((Failure::Lost(open), events));
            }
            let event = self.next_event(&state, &done);
            match event {
                Event::Tick => done.clear(),
                Event::Beat(_) | Event::Look(_) | Event::End(..) | Event::EndSessions(..) => done.push(event),
                _ => {}
            }
            events.push(event);
            match self.after(&state, event) {
                Ok(after) => state = after,
                Err(failure) => return Err((failure, events)),
            }
        }
    }

    /// Returns a timer whose promise is not kept, if a process lives.
    fn unkept(&self, state: &State, of: impl Fn(usize) -> bool) -> Option<usize> {
        let is_living = state.processes.iter().any(|process| process.is_up && !process.is_cut) || self.has_poison();
        let is_kept = |timer: usize| {
            let past = &state.past[timer];
            past.handled || !past.promised || state.letters[timer].is_some()
        };
        (0..state.rows.len())
            .filter(|timer| is_living && of(self.timers()[*timer].route))
            .find(|timer| !is_kept(*timer))
    }

    fn next_event(&self, state: &State, done: &[Event]) -> Event {
        let session = |index: &usize| {
            // Of lost connections, half of a claim stays.
            state.sessions[*index].process.is_some() && self.may_proceed(state, *index)
        };
        let of_users = state.transaction.as_ref().filter(|open| !open.hangs).map(|open| match open.change {
            _ if !open.has_number => Event::TakeNumber,
            Change::Cancel { .. } => Event::RollBack,
            _ => Event::Commit,
        });
        let of_pauses = match state.pause {
            Pause::None => None,
            Pause::Set => self.may_acknowledge(state).then_some(Event::Acknowledge),
            // Other routes do not wait for it.
            Pause::Acknowledged => self.unkept(state, |route| route != 0).is_none().then_some(Event::Resume),
        };
        let ending = state.sessions.iter().position(|session| session.is_ending).map(Event::SessionEnds);
        let of_sessions = || (0..state.sessions.len()).find(session).map(Event::Proceed);
        let of_processes = || (0..state.processes.len()).find_map(|process| self.next_step(state, process, done));
        of_users.or(of_pauses).or(ending).or_else(of_sessions).or_else(of_processes).unwrap_or(Event::Tick)
    }

    fn next_step(&self, state: &State, process: usize, done: &[Event]) -> Option<Event> {
        if self.is_poisoned(state, process) {
            return Some(Event::Poison(process));
        }
        let rank = |event: &Event| match event {
            Event::Restart(_) | Event::Reconnect(_) | Event::Join(_) => Some(0),
            Event::StartHandler(..) | Event::Complete(..) | Event::EndStray(_) => Some(1),
            Event::End(..) | Event::Release(_) => Some(2),
            Event::Beat(_) | Event::EndSessions(..) => Some(3),
            Event::Look(_) => Some(4),
            _ => None,
        };
        let is_open = |event: &Event| rank(event).is_some() && !done.contains(event);
        self.steps(state, process).into_iter().filter(is_open).min_by_key(rank)
    }
}
