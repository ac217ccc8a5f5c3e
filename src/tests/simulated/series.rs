//! The model of repeating timers. Each repetition is an entry of its own, created when the previous message is
//! produced.

use std::time::Duration;

use actix::Message;

use crate::simulation::{self, random, seeds};
use crate::tests::simulated::records::{Entry, Kind, Log, MILLISECOND, Note, Records, tell};
use crate::{
    MessageSource, MissedTickBehavior, Repeat, RepeatTimes, RescheduleOutcome, Target, TimerId, TimerOptions, Timers,
};

/// The most by which a repetition may be set late if its message went through its owner's mailbox: the driver, or the
/// watchdog, has to notice the end of its handler.
const NOTICED: u64 = 300 * MILLISECOND;

/// The schedule of a repeating timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) is_delay: bool,
    pub(crate) first_after: u64,
    period: u64,
    times: u64,
    missed: MissedTickBehavior,
}

impl Plan {
    pub(crate) fn any() -> Self {
        let period = match random(8) {
            0 => 1 + random(3 * MILLISECOND),
            1 => 40 * MILLISECOND,
            2 => 21 * MILLISECOND,
            3..5 => 2 * MILLISECOND,
            _ => 5 * MILLISECOND,
        };
        let missed = [MissedTickBehavior::Skip, MissedTickBehavior::Burst, MissedTickBehavior::Delay];
        Self {
            is_delay: random(3) == 0,
            first_after: if random(3) == 0 { crate::tests::simulated::subject::any_delay() } else { period },
            period,
            times: 1 + random(6),
            missed: missed[random(3) as usize],
        }
    }

    pub(crate) fn every(self) -> RepeatTimes {
        let repeat =
            Repeat::every(Duration::from_nanos(self.period)).first_after(Duration::from_nanos(self.first_after));
        let repeat = repeat.times(self.times).missed_ticks(self.missed);
        if self.is_delay { repeat.with_fixed_delay() } else { repeat.into() }
    }

    pub(crate) fn schedule<M>(self, timers: &Timers, target: Target<M>, source: MessageSource<M>) -> Option<TimerId>
    where
        M: Message<Result = ()> + Send + 'static,
    {
        timers.timer(target, TimerOptions::new()).try_repeat(self.every(), source).ok()
    }

    /// Returns the earliest time of the repetition after one that is due at `least` or later and produced at `made`.
    const fn least_after(self, kind: Kind, (least, is_exact): (u64, bool), made: u64) -> u64 {
        let on_time = least + self.period;
        match self.missed {
            _ if self.is_delay => made + self.period,
            MissedTickBehavior::Skip if on_time > made => on_time,
            // A message without room is sent later than it is produced.
            MissedTickBehavior::Skip if is_exact && !kind.may_wait() => {
                least + ((made - least) / self.period + 1) * self.period
            }
            MissedTickBehavior::Skip => made + 1,
            MissedTickBehavior::Burst | MissedTickBehavior::Delay => on_time,
        }
    }
}

/// A repeating timer.
#[derive(Debug)]
pub(crate) struct Series {
    plan: Plan,
    id: Option<TimerId>,
    first: usize,
    /// The repetition whose message is produced next; `None` after the last.
    next: Option<usize>,
    /// The repetition before that.
    last_made: Option<usize>,
    /// Repetitions after the next.
    left: u64,
    /// Whether the deadline of the next is known to the nanosecond.
    is_exact: bool,
    /// Whether the next was moved: then the end of the previous handler does not matter.
    is_moved: bool,
    /// A move in progress.
    moves: Option<Move>,
    /// A move made while a repetition was under way.
    asked: Option<Asked>,
    is_cancelled: bool,
    /// Whether a cancel came while a repetition was under way: none follows, even if the timer is moved.
    is_ending: bool,
    /// The number of messages that may still be produced after a cancel.
    ends_after: Option<u32>,
    pub(crate) is_drained: bool,
    pub(crate) is_dropped: bool,
}

/// A move in progress.
#[derive(Debug, Clone, Copy)]
struct Move {
    /// The next repetition at its start.
    from: usize,
    least: u64,
}

/// A move of a timer with a repetition under way, which may have set the one after that.
#[derive(Debug, Clone, Copy)]
struct Asked {
    least: u64,
    most: u64,
    /// Whether the message of the repetition under way may still have to be produced.
    is_new: bool,
}

impl Series {
    /// Whether the timer has ended, or may have, by a call.
    const fn may_have_ended(&self) -> bool {
        self.next.is_none() || self.is_cancelled || self.is_ending || self.is_drained
    }
}

/// The source of a timer's messages.
pub(crate) struct Source {
    records: Records,
    series: usize,
    pub(crate) first: usize,
}

impl Source {
    /// Produces a message. It may take time, and no lock is held meanwhile.
    pub(crate) fn make(&self) -> Note {
        let number = self.records.log().make(self.series);
        let note = Note { records: self.records.clone(), number };
        if random(16) == 0 {
            let time = 1 + random(2 * MILLISECOND);
            self.records.disturbed(simulation::now() + time);
            simulation::stall(time);
        }
        note
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.records.log().source_dropped(self.series);
    }
}

impl Records {
    /// Records that a repeating timer is about to be scheduled.
    pub(crate) fn schedule_series(&self, kind: Kind, service: usize, recipient: usize, plan: Plan) -> Source {
        let first = {
            // The note of the first repetition is created when it is due.
            let mut log = self.log();
            let called = log.step();
            let incarnation = log.recipients[recipient].incarnation;
            let entry = Entry::new(kind, service, recipient, incarnation);
            let least = simulation::now() + plan.first_after;
            let (at_once, series) = (plan.first_after == 0, Some(log.series.len()));
            log.entries.push(Entry { called, least, at_once, series, is_made: false, ..entry });
            log.entries.len() - 1
        };
        tell!("schedule {first} {kind:?} service {service} recipient {recipient} {plan:?}");
        let mut log = self.log();
        log.series.push(Series {
            plan,
            id: None,
            first,
            next: Some(first),
            last_made: None,
            left: plan.times - 1,
            is_exact: false,
            is_moved: false,
            moves: None,
            asked: None,
            is_cancelled: false,
            is_ending: false,
            ends_after: None,
            is_drained: false,
            is_dropped: false,
        });
        Source { records: self.clone(), series: log.series.len() - 1, first }
    }

    /// Returns the timer that the message belongs to, if it repeats.
    pub(crate) fn repeats(&self, number: usize) -> Option<(usize, TimerId, usize)> {
        let log = self.log();
        let series = log.entries[number].series?;
        Some((number, log.series[series].id?, log.entries[number].service))
    }

    /// Records the end of a message's handler.
    pub(crate) fn done(&self, number: usize) {
        tell!("done {number}");
        self.log().series_done(number);
    }
}

impl Log {
    pub(crate) fn id_of(&self, number: usize) -> Option<TimerId> {
        let entry = &self.entries[number];
        entry.series.map_or(entry.id, |series| self.series[series].id)
    }

    /// Returns the entry that counts the calls in progress.
    pub(crate) fn first_of(&self, number: usize) -> usize {
        self.entries[number].series.map_or(number, |series| self.series[series].first)
    }

    /// Records that a timer has been scheduled, or rejected.
    pub(crate) fn series_scheduled(&mut self, number: usize) {
        let entry = &self.entries[number];
        let Some(series) = entry.series else { return };
        let series = &mut self.series[series];
        series.id = entry.id;
        series.is_exact = entry.least == entry.most && series.next == Some(number);
    }

    fn make(&mut self, number: usize) -> usize {
        let (step, now) = (self.step(), simulation::now());
        let (drains, made) = (self.drains, self.entries.len());
        let series = &mut self.series[number];
        let Some(current) = series.next else {
            let last = series.last_made.unwrap_or(series.first);
            self.fail(format!("a message was made after the last: {last}"));
            return last;
        };
        tell!("make {current}, then {made}");
        let entry = &mut self.entries[current];
        entry.is_made = true;
        if entry.returned.is_none() {
            (entry.returned, entry.returned_at) = (Some(step), now);
        }
        let (kind, least) = (entry.kind, entry.least);
        let is_too_early = now < least && drains == 0;
        let is_too_late = series.ends_after == Some(0) && drains == 0;
        // A message that was in production at the cancel is dropped.
        entry.cancelled |= series.is_cancelled;
        let after = Entry::new(kind, entry.service, entry.recipient, entry.incarnation);
        series.ends_after = series.ends_after.map(|more| more.saturating_sub(1));
        series.last_made = Some(current);
        series.next = (series.left > 0).then_some(made);
        series.left = series.left.saturating_sub(1);
        series.is_moved = false;
        series.asked = series.asked.filter(|asked| asked.is_new).map(|asked| Asked { is_new: false, ..asked });
        if series.next.is_some() {
            let least = series.plan.least_after(kind, (least, series.is_exact), now);
            let least = series.moves.map_or(least, |moves| moves.least.min(least));
            let least = series.asked.map_or(least, |asked| asked.least.min(least));
            let (moves, is_asked) = (series.moves.is_some(), series.asked.is_some());
            series.is_exact &= !moves && !is_asked && !kind.is_followed() && !kind.may_wait();
            series.is_exact &= !series.plan.is_delay && series.plan.missed != MissedTickBehavior::Delay;
            let (unordered, cancelled, of) = (moves || is_asked, series.is_cancelled, Some(number));
            let entry = Entry { series: of, called: step, least, at_once: true, is_made: false, ..after };
            self.entries.push(Entry { unordered, moves, cancelled, ..entry });
        }
        if is_too_early {
            self.fail(format!("made too early: {current} {:?}", self.entries[current]));
        } else if is_too_late {
            self.fail(format!("made after its timer was cancelled: {current} {:?}", self.entries[current]));
        }
        current
    }

    /// Records that a message is handled. The next repetition is already set, unless it depends on the handler.
    pub(crate) fn series_handled(&mut self, number: usize, step: u64) {
        let now = simulation::now();
        let Some(series) = self.entries[number].series else { return };
        let series = &self.series[series];
        let kind = self.entries[number].kind;
        let is_tracked = kind.is_followed() && kind != Kind::Own;
        let is_last = series.next.is_none() && series.last_made == Some(number);
        if series.is_cancelled && (is_tracked || is_last) {
            return self.fail(format!("handled, but its timer was cancelled: {number} {:?}", self.entries[number]));
        }
        let Some(next) = series.next.filter(|_| series.last_made == Some(number) && !series.is_moved) else { return };
        let (is_delay, period) = (series.plan.is_delay, series.plan.period);
        let entry = &mut self.entries[next];
        if kind == Kind::Plain {
            (entry.returned, entry.returned_at) = (Some(step), now);
        } else if is_delay
            && kind.is_followed()
            && kind != Kind::Own
            && series.moves.is_none()
            && series.asked.is_none()
        {
            entry.least = entry.least.max(now + period);
        }
    }

    fn series_done(&mut self, number: usize) {
        let now = simulation::now();
        let Some(series) = self.entries[number].series else { return };
        let series = &self.series[series];
        let Some(next) = series.next.filter(|_| series.last_made == Some(number) && !series.is_moved) else { return };
        if series.is_ending || series.moves.is_some() || self.any_drain {
            return;
        }
        let kind = self.entries[number].kind;
        let entry = &mut self.entries[next];
        let latest = match kind {
            _ if series.is_exact => entry.least.max(now),
            Kind::Plain => now + series.plan.period,
            _ => now + series.plan.period + NOTICED,
        };
        entry.is_set = true;
        entry.most = series.asked.map_or(latest, |asked| asked.most.max(latest));
    }

    pub(crate) fn series_cancelled(&mut self, number: usize) {
        let first = self.first_of(number);
        self.entries[first].cancels -= 1;
        let Some(series) = self.entries[number].series else { return };
        let series = &mut self.series[series];
        let last = series.last_made.filter(|_| series.next.is_none());
        let is_over = last.is_some_and(|last| self.entries[last].handled.is_some());
        let is_wrong = series.is_cancelled || series.is_drained || is_over;
        series.is_cancelled = true;
        if let Some(ended) = series.next.or(last) {
            self.entries[ended].cancelled = true;
        }
        if is_wrong {
            self.fail(format!("cancelled, but it had ended before: {number} {:?}", self.entries[number]));
        }
    }

    /// Records a cancel that found a repetition under way: none follows.
    pub(crate) fn series_ends(&mut self, number: usize) {
        let first = self.first_of(number);
        self.entries[first].cancels -= 1;
        let Some(series) = self.entries[number].series else { return };
        let series = &mut self.series[series];
        series.is_ending = true;
        series.ends_after.get_or_insert(1);
        // No further repetition is required, and the one under way is not known.
        if let Some(next) = series.next {
            self.entries[next].is_set = false;
        }
    }

    pub(crate) fn series_not_found(&mut self, number: usize) {
        let first = self.first_of(number);
        self.entries[first].cancels -= 1;
        let entry = &self.entries[number];
        let Some(series) = entry.series else { return };
        let series = &self.series[series];
        let recipient = self.recipients[entry.recipient];
        if self.entries[first].cancels == 0
            && !self.any_drain
            && !series.may_have_ended()
            && !recipient.is_gone
            && entry.incarnation == recipient.incarnation
        {
            self.fail(format!("not found, but its timer goes on: {number} {series:?}"));
        }
    }

    pub(crate) fn move_series(&mut self, number: usize, delay: u64) -> Option<(u64, u64)> {
        let series = &mut self.series[self.entries[number].series?];
        let next = series.next?;
        if series.moves.is_some() || series.id.is_none() {
            return None;
        }
        tell!("move {next} after {} us", delay / 1000);
        let least = simulation::now() + delay;
        series.moves = Some(Move { from: next, least });
        let entry = &mut self.entries[next];
        let before = (entry.least, entry.most);
        entry.moves = true;
        entry.least = entry.least.min(least);
        Some(before)
    }

    pub(crate) fn series_moved(
        &mut self,
        number: usize,
        delay: u64,
        least: u64,
        began: (u64, u64),
        outcome: RescheduleOutcome,
    ) {
        let (step, now) = (self.step(), simulation::now());
        let Some(place) = self.entries[number].series else { return };
        let series = &mut self.series[place];
        let Some(Move { from, .. }) = series.moves.take() else { return };
        let kind = self.entries[number].kind;
        let is_same = series.next == Some(from);
        self.entries[from].moves = false;
        if let Some(next) = series.next {
            self.entries[next].moves = false;
        }
        let (earliest, latest) = (began.1 + delay, now + delay);
        match outcome {
            RescheduleOutcome::Rescheduled if is_same => {
                let entry = &mut self.entries[from];
                (entry.called, entry.returned, entry.returned_at) = (began.0, Some(step), now);
                (entry.least, entry.most, entry.at_once) = (earliest, latest, delay == 0);
                (entry.is_set, entry.unordered) = (!series.is_ending, false);
                (series.is_moved, series.is_exact) = (true, earliest == latest);
            }
            RescheduleOutcome::NotFound | RescheduleOutcome::AlreadyDelivered if is_same => {
                self.entries[from].least = least;
            }
            // A plain one is not in flight.
            RescheduleOutcome::InProgress if is_same && kind == Kind::Plain => self.entries[from].least = least,
            _ => {
                series.is_exact = false;
                series.asked = Some(Asked { least: earliest, most: latest, is_new: true });
                for entry in &mut self.entries[from..] {
                    entry.unordered |= entry.series == Some(place);
                }
                if let Some(next) = series.next {
                    self.entries[next].most = self.entries[next].most.max(latest);
                }
            }
        }
    }

    fn source_dropped(&mut self, number: usize) {
        tell!("source dropped: {}", self.series[number].first);
        let series = &mut self.series[number];
        series.is_dropped = true;
        let first = &self.entries[series.first];
        let recipient = self.recipients[first.recipient];
        let is_right = series.may_have_ended()
            || first.rejected
            || first.returned.is_none()
            || first.cancels > 0
            // The message under way at its start was delivered as the last.
            || self.any_drain
            || self.is_over
            || recipient.is_gone
            || first.incarnation != recipient.incarnation;
        if !is_right {
            let failure = format!("its timer has ended by itself: {series:?}");
            self.fail(failure);
        }
    }

    /// Counts cancelled repeating timers.
    pub(crate) fn series_cancelled_of(&self, service: usize) -> u64 {
        let is_here = |series: &&Series| series.is_cancelled && self.entries[series.first].service == service;
        self.series.iter().filter(is_here).count() as u64
    }

    /// Counts repetitions of which the acceptance is unknown.
    pub(crate) fn uncertain_of(&self, service: usize) -> u64 {
        let is_uncertain = |series: &&Series| {
            let is_here = self.entries[series.first].service == service;
            let before = series.last_made.map(|last| &self.entries[last]);
            let is_unsure = |last: &Entry| last.handled.is_none() || series.is_ending || self.any_drain;
            let has_stopped = |last: &Entry| self.recipients[last.recipient].incarnation != last.incarnation;
            is_here && series.next.is_some() && before.is_some_and(|last| is_unsure(last) || has_stopped(last))
        };
        self.series.iter().filter(is_uncertain).count() as u64
    }
}
