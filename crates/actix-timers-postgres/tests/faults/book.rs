//! The checker of lines: the promises about each timer, from the [lines](crate::lines) of all nodes.
//!
//! 1. A stored timer is handled, or in the tables, or was perhaps cancelled.
//! 2. After `cancelled` its handler does not run again, nor after its timer was not found; nor ever for a request that
//!    stored nothing.
//! 3. Each (id, repetition, attempt) reaches a handler at most once, and these numbers rise.
//! 4. A failed attempt is followed by another one, and a repetition by the next, up to the last.
//! 5. Nothing is early, by the clock of the machine, which is that of the database.
//!
//! A node that was stopped or cut off beyond its lease may have a group of deliveries in memory, which its successor
//! repeats: these [late deliveries](Absence) may come after the newer ones, at most a window of them for each absence.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use actix_timers_durable::DurableId;

use crate::lines::{Event, Line, Reader};
use crate::node::fails;

/// The time in microseconds by which a request without an answer has been committed, or never will be.
const UNANSWERED: u64 = 10_000_000;

/// A time in which a node was stopped or cut off, in microseconds since 1970, and the number of deliveries that it may
/// have begun before.
#[derive(Debug, Clone)]
pub(crate) struct Absence {
    pub(crate) node: String,
    pub(crate) from: u64,
    pub(crate) window: usize,
}

/// A delivery.
#[derive(Debug, Clone)]
struct Handled {
    line: u64,
    at: u64,
    node: String,
    /// Repetition and attempt.
    turn: (u64, u32),
    due: u64,
}

/// A request to move a timer.
#[derive(Debug, Clone)]
struct Move {
    asked: u64,
    asked_at: u64,
    done: Option<(u64, u64)>,
    is_refused: bool,
    due: u64,
}

/// The history of a timer. Events have the numbers of their lines.
#[derive(Debug, Default)]
struct Timer {
    number: u64,
    /// The number of its repetitions.
    times: u64,
    asked_at: u64,
    /// The last event, in microseconds since 1970.
    last_at: u64,
    stored: Option<u64>,
    stored_at: u64,
    /// Nothing was stored.
    refused: bool,
    /// The timer is perhaps cancelled, or replaced: the number of requests that may have removed it.
    removals: u64,
    cancelled: Option<(u64, u64)>,
    /// A cancel did not find it.
    missed: Option<(u64, u64)>,
    moves: Vec<Move>,
    handled: Vec<Handled>,
}

/// All lines so far, by timer.
#[derive(Default)]
pub(crate) struct Book {
    reader: Option<Reader>,
    lines: u64,
    timers: HashMap<DurableId, Timer>,
    /// Nodes by their events without a timer.
    started: BTreeSet<String>,
    done: BTreeSet<String>,
    stopped: BTreeSet<String>,
    problems: Vec<(String, String)>,
    /// Nodes with their numbers of refused and unsure requests.
    errors: BTreeMap<String, (u64, u64)>,
    /// Times in which everything may be lost, in microseconds since 1970.
    void: Option<Range<u64>>,
    absences: Vec<Absence>,
    early: Vec<String>,
    /// The longest time from a request to its answer, in microseconds.
    longest_wait: u64,
    keys: HashMap<DurableId, String>,
}

impl Book {
    pub(crate) fn open(path: &Path) -> Self {
        Self { reader: Some(Reader::open(path)), ..Self::default() }
    }

    /// Reads the lines written since the last call.
    pub(crate) fn read(&mut self) {
        let lines = self.reader.as_mut().map(Reader::read).unwrap_or_default();
        lines.into_iter().for_each(|line| self.note(line));
    }

    fn note(&mut self, Line { at, node, event }: Line) {
        self.lines += 1;
        let line = self.lines;
        if let Event::Scheduled { id }
        | Event::Replaced { id, .. }
        | Event::Refused { id, .. }
        | Event::Unsure { id, .. } = &event
            && let Some(timer) = self.timers.get(id)
        {
            self.longest_wait = self.longest_wait.max(at.saturating_sub(timer.asked_at));
        }
        match event {
            Event::Started => _ = self.started.insert(node),
            Event::Done => _ = self.done.insert(node),
            Event::Stopped => _ = self.stopped.insert(node),
            Event::Problem { text } => self.problems.push((node, text)),
            Event::Asked { id, number, key, times } => {
                let timer = timer(&mut self.timers, at, id);
                (timer.number, timer.times, timer.asked_at) = (number, times, at);
                self.keys.extend(key.map(|key| (id, key)));
            }
            Event::Scheduled { id } => timer(&mut self.timers, at, id).store(line, at),
            Event::Exists { asked, .. } => timer(&mut self.timers, at, asked).refused = true,
            Event::Replaced { id, old, in_progress } => {
                timer(&mut self.timers, at, id).store(line, at);
                let old = timer(&mut self.timers, at, old);
                old.removals += 1;
                if !in_progress {
                    old.cancelled.get_or_insert((line, at));
                }
            }
            Event::Refused { id, .. } => {
                timer(&mut self.timers, at, id).refused = true;
                self.errors.entry(node).or_default().0 += 1;
            }
            Event::Unsure { id, .. } => {
                timer(&mut self.timers, at, id).removals += 1;
                // A replaced timer, too: which one is not known.
                if let Some(key) = self.keys.get(&id) {
                    let of_key = self.keys.iter().filter(|(_, other)| *other == key).map(|(id, _)| *id);
                    for id in of_key.collect::<Vec<_>>() {
                        self.timers.entry(id).or_default().removals += 1;
                    }
                }
                self.errors.entry(node).or_default().1 += 1;
            }
            Event::Cancelling { id } => timer(&mut self.timers, at, id).removals += 1,
            Event::Cancelled { id } => {
                let timer = timer(&mut self.timers, at, id);
                timer.cancelled.get_or_insert((line, at));
            }
            Event::NotFound { id } => {
                let timer = timer(&mut self.timers, at, id);
                // Else another request may have removed it, during a delivery that goes on.
                let is_alone = timer.removals == 1 && !self.keys.contains_key(&id);
                if timer.stored.is_some() && is_alone {
                    timer.missed.get_or_insert((line, at));
                }
            }
            Event::Moving { id, due } => {
                let asked = Move { asked: line, asked_at: at, done: None, is_refused: false, due };
                timer(&mut self.timers, at, id).moves.push(asked);
            }
            Event::Moved { id, due } => timer(&mut self.timers, at, id).last_move(due).done = Some((line, at)),
            Event::NotMoved { id, due } => timer(&mut self.timers, at, id).last_move(due).is_refused = true,
            Event::Handled { id, number, repetition, attempt, due } => {
                let timer = timer(&mut self.timers, at, id);
                if timer.number != number || timer.asked_at == 0 {
                    let text = format!("timer {id} has the message {number} instead of {}", timer.number);
                    self.problems.push((node.clone(), text));
                }
                timer.handled.push(Handled { line, at, node, turn: (repetition, attempt), due });
                if at < due * 1000 {
                    self.early.push(format!("timer {id} came {} us early", due * 1000 - at));
                }
            }
            Event::InProgress { .. } | Event::NotCancelled { .. } | Event::Ended { .. } => {}
        }
    }

    /// Notes that everything in this time may be lost or come again: a promoted standby did not have it.
    pub(crate) fn void(&mut self, times: Range<u64>) {
        self.void = Some(times);
    }

    pub(crate) fn absent(&mut self, absence: Absence) {
        self.absences.push(absence);
    }

    pub(crate) fn has_started(&self, node: &str) -> bool {
        self.started.contains(node)
    }

    pub(crate) fn is_done(&self, node: &str) -> bool {
        self.done.contains(node)
    }

    pub(crate) fn has_stopped(&self, node: &str) -> bool {
        self.stopped.contains(node)
    }

    /// Returns the failures of calls that are no requests.
    pub(crate) fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    /// Returns the refused and the unsure requests of a node.
    pub(crate) fn errors(&self, node: &str) -> (u64, u64) {
        self.errors.get(node).copied().unwrap_or_default()
    }

    /// Returns the number of stored timers, and of deliveries.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let stored = self.timers.values().filter(|timer| timer.stored.is_some()).count();
        (stored, self.timers.values().map(|timer| timer.handled.len()).sum())
    }

    /// Returns the longest time from a request to its answer.
    pub(crate) const fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.longest_wait)
    }

    /// Returns the time from the first request to move a timer to the last reply.
    pub(crate) fn time_of_moves(&self) -> Duration {
        let moves = || self.timers.values().flat_map(|timer| &timer.moves);
        let first = moves().map(|it| it.asked_at).min().unwrap_or(0);
        let last = moves().filter_map(|it| it.done.map(|(_, at)| at)).max().unwrap_or(0);
        Duration::from_micros(last.saturating_sub(first))
    }

    /// Returns the number of timers stored at or after this time.
    pub(crate) fn stored_since(&self, at: u64) -> usize {
        self.timers.values().filter(|timer| timer.stored.is_some() && timer.stored_at >= at).count()
    }

    /// Returns the node, time and attempt of each delivery of a timer with this number.
    pub(crate) fn deliveries(&self, number: u64) -> Vec<(String, u64, u32)> {
        let of_number = self.timers.values().filter(|timer| timer.number == number);
        let handled = of_number.flat_map(|timer| &timer.handled);
        handled.map(|handled| (handled.node.clone(), handled.at, handled.turn.1)).collect()
    }

    /// Returns the number of timers from this number on that have begun, or that another node may have cancelled or moved.
    pub(crate) fn begun_from(&self, number: u64) -> usize {
        let has_begun = |timer: &Timer| !timer.handled.is_empty() || timer.removals > 0 || !timer.moves.is_empty();
        self.timers.values().filter(|timer| timer.number >= number && has_begun(timer)).count()
    }

    /// Returns the id of the timer with this number.
    pub(crate) fn id(&self, number: u64) -> Option<DurableId> {
        self.timers.iter().find(|(_, timer)| timer.number == number).map(|(id, _)| *id)
    }

    /// Returns the number of deliveries by each node.
    pub(crate) fn by_node(&self) -> BTreeMap<&str, usize> {
        let mut numbers = BTreeMap::new();
        for handled in self.timers.values().flat_map(|timer| &timer.handled) {
            *numbers.entry(&*handled.node).or_insert(0) += 1;
        }
        numbers
    }

    /// Returns the deliveries whose attempt is above that of their failures.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let all =
            self.timers.iter().flat_map(|(id, timer)| timer.handled.iter().map(move |it| (id, timer.number, it.turn)));
        let repeated = all.filter(|(_, number, (_, attempt))| *attempt > 1 && !fails(*number, attempt - 1));
        repeated.map(|(id, _, turn)| format!("timer {id} came as {turn:?}")).collect()
    }

    /// Returns the deliveries that follow a successful one of the same repetition.
    pub(crate) fn handled_again(&self) -> Vec<String> {
        let mut again = Vec::new();
        for (id, timer) in &self.timers {
            let mut done = BTreeSet::new();
            for Handled { turn: (repetition, attempt), .. } in &timer.handled {
                if done.contains(repetition) {
                    again.push(format!("timer {id} was handled again: {timer:?}"));
                }
                if !fails(timer.number, *attempt) {
                    done.insert(*repetition);
                }
            }
        }
        again
    }

    /// Returns the latenesses of first attempts in these times, in microseconds, without those of some timers. A timer is not
    /// late before its request has ended.
    pub(crate) fn latenesses(&self, times: &Range<u64>, without: &[DurableId]) -> Vec<u64> {
        let mut latenesses = Vec::new();
        for timer in self.timers.iter().filter(|(id, _)| !without.contains(id)).map(|(_, timer)| timer) {
            for handled in timer.handled.iter().filter(|handled| times.contains(&handled.at)) {
                // A timer that was moved may have been due before the request.
                if handled.turn != (1, 1) || !timer.moves.is_empty() {
                    continue;
                }
                let due = (handled.due * 1000).max(timer.stored_at.min(handled.at)).max(timer.asked_at);
                latenesses.push(handled.at.saturating_sub(due));
            }
        }
        latenesses
    }

    /// Returns the keys that name several timers in the tables.
    pub(crate) fn shared_keys(&self, in_tables: &BTreeSet<DurableId>) -> Vec<String> {
        let mut of_keys = BTreeMap::<&str, Vec<DurableId>>::new();
        for (id, key) in self.keys.iter().filter(|(id, _)| in_tables.contains(id)) {
            of_keys.entry(key).or_default().push(*id);
        }
        of_keys.retain(|_, ids| ids.len() > 1);
        of_keys.into_iter().map(|(key, ids)| format!("{key} names {ids:?}")).collect()
    }

    /// Returns the ids that must be in the tables if they are not handled later.
    pub(crate) fn open_timers(&self) -> BTreeSet<DurableId> {
        let unanswered = self.unanswered();
        let is_open = |(id, timer): &(&DurableId, &Timer)| {
            let replaced_until = self.keys.get(id).and_then(|key| unanswered.get(&**key));
            timer.stored.is_some()
                && timer.removals == 0
                && !self.is_void(timer)
                && timer.must_come()
                && replaced_until.is_none_or(|until| timer.asked_at > *until)
        };
        self.timers.iter().filter(is_open).map(|(id, _)| *id).collect()
    }

    /// Returns the keys of requests without an answer, whose nodes were perhaps killed, with the times by which these
    /// requests have replaced a timer, or never will.
    fn unanswered(&self) -> HashMap<&str, u64> {
        let mut unanswered = HashMap::new();
        for (id, key) in &self.keys {
            let timer = &self.timers[id];
            if timer.stored.is_none() && !timer.refused {
                let until: &mut u64 = unanswered.entry(&**key).or_default();
                *until = (*until).max(timer.asked_at + UNANSWERED);
            }
        }
        unanswered
    }

    /// Returns the ids of the `open` timers that are neither handled by now, nor perhaps gone, nor in the tables.
    pub(crate) fn lost(&self, open: &BTreeSet<DurableId>, in_tables: &BTreeSet<DurableId>) -> Vec<String> {
        let still_open = self.open_timers();
        let lost = open.iter().filter(|id| still_open.contains(id) && !in_tables.contains(id));
        lost.map(|id| format!("timer {id} is lost: {:?}", self.timers[id])).collect()
    }

    /// Returns the ids in the tables that were cancelled or never stored.
    pub(crate) fn revenants(&self, in_tables: &BTreeSet<DurableId>) -> Vec<String> {
        let is_revenant = |id: &&DurableId| match self.timers.get(id) {
            Some(timer) => (timer.cancelled.is_some() || timer.refused) && !self.is_void(timer),
            None => true,
        };
        let back = in_tables.iter().filter(is_revenant);
        back.map(|id| format!("timer {id} is back: {:?}", self.timers.get(id))).collect()
    }

    /// Returns the violations in the lines so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut violations = self.early.clone();
        let mut late = vec![0; self.absences.len()];
        for (id, timer) in &self.timers {
            if self.is_void(timer) {
                continue;
            }
            let mut found = |text: &str| violations.push(format!("timer {id} {text}: {timer:?}"));
            if timer.refused && !timer.handled.is_empty() {
                found("was never stored, and handled");
            }
            let mut turns = BTreeSet::new();
            let mut last: Option<&Handled> = None;
            for handled in &timer.handled {
                if !turns.insert(handled.turn) {
                    found("came twice with the same numbers");
                }
                let is_old = last.is_some_and(|last| handled.turn < last.turn);
                let before = |event: &(u64, u64)| event.0 < handled.line;
                let (cancelled, missed) = (timer.cancelled.filter(before), timer.missed.filter(before));
                if is_old || cancelled.is_some() || missed.is_some() {
                    // The events that made it late.
                    let gone_at = cancelled.into_iter().chain(missed).map(|(_, at)| at).max().unwrap_or(0);
                    let since = last.filter(|_| is_old).map_or(0, |last| last.at).max(gone_at);
                    match self.absences.iter().position(|absence| absence.covers(handled, since)) {
                        Some(index) => late[index] += 1,
                        None if cancelled.is_some() => found("was cancelled, and handled"),
                        None if missed.is_some() => found("was not found, and handled"),
                        None => found("came with falling numbers"),
                    }
                }
                if last.is_none_or(|last| last.turn < handled.turn) {
                    last = Some(handled);
                }
                if timer.is_moved_later(handled) {
                    found("came before the time to which it was moved");
                }
            }
        }
        for (absence, late) in self.absences.iter().zip(late) {
            if late > absence.window {
                violations.push(format!("{late} deliveries were late after {absence:?}"));
            }
        }
        violations
    }

    fn is_void(&self, timer: &Timer) -> bool {
        let Some(void) = &self.void else { return false };
        void.contains(&timer.last_at)
            || void.contains(&timer.stored_at)
            || void.contains(&timer.asked_at)
            || timer.cancelled.into_iter().chain(timer.missed).any(|(_, at)| void.contains(&at))
            || timer.handled.iter().any(|handled| void.contains(&handled.at))
    }
}

/// Returns the history of a timer with an event at this time.
fn timer(timers: &mut HashMap<DurableId, Timer>, at: u64, id: DurableId) -> &mut Timer {
    let timer = timers.entry(id).or_default();
    timer.last_at = at;
    timer
}

impl Absence {
    /// Returns whether a delivery on the node may be late because of it, given the time of the newer events. The time of
    /// the delivery may be before them: the node may have stopped between its time and its line.
    fn covers(&self, handled: &Handled, since: u64) -> bool {
        handled.node == self.node && self.from <= since
    }
}

impl Timer {
    fn store(&mut self, line: u64, at: u64) {
        (self.stored, self.stored_at) = (Some(line), at);
    }

    fn last_move(&mut self, due: u64) -> &mut Move {
        let is_it = |it: &&mut Move| it.due == due && it.done.is_none() && !it.is_refused;
        self.moves.iter_mut().rev().find(is_it).expect("its line comes after `moving`")
    }

    /// Returns whether no delivery so far can have been the last.
    fn must_come(&self) -> bool {
        match self.handled.iter().max_by_key(|handled| handled.turn) {
            None => true,
            Some(Handled { turn: (repetition, attempt), .. }) => {
                *repetition < self.times || fails(self.number, *attempt)
            }
        }
    }

    /// Returns whether the timer had been moved to a later time, and not moved since.
    fn is_moved_later(&self, handled: &Handled) -> bool {
        let done = self.moves.iter().filter(|it| it.done.is_some_and(|(done, _)| done < handled.line));
        let Some(last) = done.max_by_key(|it| it.done) else { return false };
        // Another request may have come after it, whether or not its reply did.
        let is_last = self.moves.iter().all(|other| {
            std::ptr::eq(other, last)
                || other.is_refused
                || other.done.is_some_and(|(done, _)| done < last.asked)
                || other.asked > handled.line
        });
        is_last && handled.at < last.due * 1000
    }
}

/// The checker finds each sort of violation.
#[cfg(test)]
mod tests {
    use actix_timers_durable::DueTime;

    use super::*;

    /// A timer whose handlers do not fail, and one whose first two attempts do.
    const SOUND: u64 = 70;
    const FAILING: u64 = 9;

    type Events = Vec<(&'static str, Event)>;
    /// The numbers of lost timers, of revenants and of other violations.
    type Judgement = (usize, usize, usize);

    fn id() -> DurableId {
        DurableId::from_parts(DueTime::MIN, 1, 1)
    }

    fn asked(number: u64, times: u64) -> Events {
        vec![("a", Event::Asked { id: id(), number, key: None, times })]
    }

    fn stored(number: u64, times: u64) -> Events {
        [asked(number, times), vec![("a", Event::Scheduled { id: id() })]].concat()
    }

    fn handled(node: &'static str, number: u64, turns: &[(u64, u32)]) -> Events {
        let handled = |(repetition, attempt)| Event::Handled { id: id(), number, repetition, attempt, due: 0 };
        turns.iter().map(|turn| (node, handled(*turn))).collect()
    }

    fn cancel(outcome: Event) -> Events {
        vec![("c", Event::Cancelling { id: id() }), ("c", outcome)]
    }

    fn book(events: &[Events]) -> Book {
        let mut book = Book::default();
        for (node, event) in events.concat() {
            book.note(Line { at: crate::cluster::now(), node: node.to_owned(), event });
        }
        book
    }

    fn judge(book: &Book, is_pending: bool) -> Judgement {
        let pending = is_pending.then_some(id()).into_iter().collect();
        (book.lost(&book.open_timers(), &pending).len(), book.revenants(&pending).len(), book.violations().len())
    }

    /// Returns the number of violations if the node `a` was absent.
    fn violations_without(events: &[Events], from: u64, window: usize) -> usize {
        let mut book = book(events);
        book.absent(Absence { node: "a".to_owned(), from, window });
        judge(&book, false).2
    }

    #[test]
    fn a_timer_comes_or_is_pending_unless_it_was_cancelled() {
        let refused = vec![("a", Event::Refused { id: id(), why: String::new() })];
        let (cancelled, not_found) = (Event::Cancelled { id: id() }, Event::NotFound { id: id() });
        for (events, when_pending, when_gone) in [
            (&[stored(SOUND, 1)][..], (0, 0, 0), (1, 0, 0)),
            (&[stored(SOUND, 1), handled("b", SOUND, &[(1, 1)])], (0, 0, 0), (0, 0, 0)),
            // A failed attempt is followed by another, and a repetition by the next.
            (&[stored(FAILING, 1), handled("a", FAILING, &[(1, 1)])], (0, 0, 0), (1, 0, 0)),
            (&[stored(FAILING, 1), handled("a", FAILING, &[(1, 1), (1, 3)])], (0, 0, 0), (0, 0, 0)),
            (&[stored(SOUND, 2), handled("a", SOUND, &[(1, 1)])], (0, 0, 0), (1, 0, 0)),
            (&[stored(SOUND, 2), handled("a", SOUND, &[(1, 1), (2, 1)])], (0, 0, 0), (0, 0, 0)),
            (&[stored(SOUND, 1), cancel(cancelled.clone())], (0, 1, 0), (0, 0, 0)),
            (&[stored(SOUND, 1), cancel(cancelled), handled("a", SOUND, &[(1, 1)])], (0, 1, 1), (0, 0, 1)),
            (&[stored(SOUND, 1), cancel(not_found.clone())], (0, 0, 0), (0, 0, 0)),
            (&[stored(SOUND, 1), cancel(not_found), handled("a", SOUND, &[(1, 2)])], (0, 0, 1), (0, 0, 1)),
            (&[asked(SOUND, 1), refused.clone()], (0, 1, 0), (0, 0, 0)),
            (&[asked(SOUND, 1), refused, handled("a", SOUND, &[(1, 1)])], (0, 1, 1), (0, 0, 1)),
            // Numbers rise.
            (&[stored(SOUND, 1), handled("a", SOUND, &[(1, 1), (1, 2), (2, 1), (4, 1)])], (0, 0, 0), (0, 0, 0)),
            (&[stored(SOUND, 1), handled("a", SOUND, &[(1, 1), (1, 1)])], (0, 0, 1), (0, 0, 1)),
            (&[stored(SOUND, 1), handled("a", SOUND, &[(1, 2), (1, 1)])], (0, 0, 1), (0, 0, 1)),
            (&[stored(SOUND, 1), handled("a", SOUND, &[(2, 1), (1, 3)])], (0, 0, 1), (0, 0, 1)),
        ] {
            let book = book(events);
            assert_eq!((judge(&book, true), judge(&book, false)), (when_pending, when_gone), "{events:?}");
        }
    }

    #[test]
    fn a_successful_delivery_is_not_repeated() {
        for (number, turns, again) in [
            (FAILING, &[(1, 1), (1, 2), (1, 3), (2, 3)][..], 0),
            (SOUND, &[(1, 1), (2, 1)], 0),
            (SOUND, &[(1, 1), (1, 2)], 1),
            (FAILING, &[(1, 3), (1, 4)], 1),
        ] {
            let book = book(&[stored(number, 1), handled("a", number, turns)]);
            assert_eq!(book.handled_again().len(), again, "{turns:?}");
        }
    }

    #[test]
    fn a_key_names_one_timer() {
        let other = DurableId::from_parts(DueTime::MIN, 2, 2);
        let asked = |id| ("a", Event::Asked { id, number: SOUND, key: Some("k".to_owned()), times: 1 });
        let book = book(&[vec![asked(id()), asked(other)]]);
        assert_eq!(book.shared_keys(&[id()].into()).len(), 0);
        assert_eq!(book.shared_keys(&[id(), other].into()).len(), 1);
    }

    #[test]
    fn a_window_of_deliveries_may_be_late_on_a_node_that_was_absent() {
        for gone in [Event::Cancelled { id: id() }, Event::NotFound { id: id() }] {
            let events = [stored(SOUND, 1), cancel(gone), handled("a", SOUND, &[(1, 1)])];
            assert_eq!(violations_without(&events, 0, 1), 0);
        }
        let mut events = vec![stored(SOUND, 1), handled("b", SOUND, &[(1, 2)]), handled("a", SOUND, &[(1, 1)])];
        assert_eq!(violations_without(&events, 0, 1), 0);
        assert_eq!(violations_without(&events, 0, 0), 1, "the window is smaller");
        assert_eq!(violations_without(&events, u64::MAX, 1), 1, "it was absent later");
        events.push(handled("c", SOUND, &[(1, 1)]));
        assert_eq!(violations_without(&events, 0, 1), 2, "another node, and the same numbers");
        let mut stopped = book(&[stored(SOUND, 1), handled("b", SOUND, &[(1, 2)])]);
        let event = Event::Handled { id: id(), number: SOUND, repetition: 1, attempt: 1, due: 0 };
        stopped.note(Line { at: 1, node: "a".to_owned(), event });
        stopped.absent(Absence { node: "a".to_owned(), from: 0, window: 1 });
        assert_eq!(judge(&stopped, false).2, 0, "it stopped after it had read the time of its line");
    }

    #[test]
    fn nothing_is_early() {
        let due = crate::cluster::now() / 1000 + 60_000;
        let moved = vec![("a", Event::Moving { id: id(), due }), ("a", Event::Moved { id: id(), due })];
        let mut events = vec![stored(SOUND, 1), moved, handled("a", SOUND, &[(1, 1)])];
        assert_eq!(judge(&book(&events), false).2, 1, "before the time to which it was moved");
        events.push(vec![("a", Event::Handled { id: id(), number: SOUND, repetition: 1, attempt: 2, due })]);
        assert_eq!(judge(&book(&events), false).2, 3, "before its own due time, too");
    }
}
