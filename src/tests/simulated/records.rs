//! The events of a simulation, and their checks.
//!
//! All events have one order, that of the steps taken. An operation that other threads could interrupt is identified by
//! the step of its call and the step of its return.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::service::deliver::watchdog::GRACE;
use crate::simulation::{self, seeds};
use crate::tests::simulated::series::Series;
use crate::{RescheduleOutcome, TimerId};

pub(crate) const MILLISECOND: u64 = 1_000_000;

/// The duration of each message of a flood.
pub(crate) const FLOOD_PACE: u64 = MILLISECOND / 2;

/// The way of a message to its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An own timer of the recipient.
    Own,
    Plain,
    Tracked,
    /// Tracked, beside others with a window.
    TrackedInLine,
    /// With a window.
    Windowed,
    /// With a window, and tracked.
    WindowedTracked,
}

impl Kind {
    /// Whether the timer notices the end of its handler, so that nothing follows before that.
    pub(crate) const fn is_followed(self) -> bool {
        !matches!(self, Self::Plain | Self::Windowed)
    }

    /// Whether a due message may have to wait.
    pub(crate) const fn may_wait(self) -> bool {
        matches!(self, Self::TrackedInLine | Self::Windowed | Self::WindowedTracked)
    }

    /// Whether a message that is due earlier precedes a later one: own timers and timers for a target have an order of
    /// their own each.
    const fn comes_before(self, later: Self) -> bool {
        match (self, later) {
            (Self::Own, _) | (_, Self::Own) => matches!((self, later), (Self::Own, Self::Own)),
            _ => !self.may_wait() || !matches!(later, Self::Plain),
        }
    }
}

/// An actor as recipient of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipient {
    pub(crate) arbiter: usize,
    pub(crate) incarnation: u32,
    /// Whether it was stopped for good.
    pub(crate) is_gone: bool,
    /// The number of futures it waits for; it takes no messages then.
    pub(crate) waits: u32,
    /// Since when its mailbox has not been empty.
    pub(crate) flooded: Option<u64>,
}

/// A timer, or one repetition of a repeating timer.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) service: usize,
    pub(crate) recipient: usize,
    pub(crate) incarnation: u32,
    pub(crate) id: Option<TimerId>,
    pub(crate) is_closure: bool,
    /// The timer whose repetition this is.
    pub(crate) series: Option<usize>,
    /// The steps of the last call that scheduled or moved it, and of its return.
    pub(crate) called: u64,
    pub(crate) returned: Option<u64>,
    pub(crate) returned_at: u64,
    /// Whether it is pending, as far as known, and must be handled.
    pub(crate) is_set: bool,
    /// The bounds of its deadline.
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Whether it is due at once: not rounded up.
    pub(crate) at_once: bool,
    /// Whether a move is in progress.
    pub(crate) moves: bool,
    /// Whether a move may have meant this repetition: its position in the order is unknown.
    pub(crate) unordered: bool,
    /// Cancels in progress.
    pub(crate) cancels: u32,
    pub(crate) rejected: bool,
    pub(crate) cancelled: bool,
    pub(crate) drained: bool,
    /// Whether its message exists, or has existed.
    pub(crate) is_made: bool,
    pub(crate) dropped: bool,
    pub(crate) handled: Option<u64>,
    pub(crate) handled_at: u64,
    /// Whether it may have passed closures.
    pub(crate) may_pass: bool,
}

impl Entry {
    pub(crate) const fn new(kind: Kind, service: usize, recipient: usize, incarnation: u32) -> Self {
        Self {
            kind,
            service,
            recipient,
            incarnation,
            id: None,
            is_closure: false,
            series: None,
            called: 0,
            returned: None,
            returned_at: 0,
            is_set: false,
            least: 0,
            most: u64::MAX,
            at_once: false,
            moves: false,
            unordered: false,
            cancels: 0,
            rejected: false,
            cancelled: false,
            drained: false,
            is_made: true,
            dropped: false,
            handled: None,
            handled_at: 0,
            may_pass: false,
        }
    }

    /// Returns the first tick in which it may be due.
    const fn first_tick(&self) -> u64 {
        if self.at_once { self.least / MILLISECOND } else { self.least.div_ceil(MILLISECOND) }
    }

    /// Returns the last tick in which it may be due.
    const fn last_tick(&self) -> u64 {
        self.most.div_ceil(MILLISECOND)
    }

    /// Whether it has been accepted and has not ended, as far as known.
    const fn is_open(&self) -> bool {
        self.is_set && !self.rejected && !self.cancelled && !self.drained && self.handled.is_none() && !self.moves
    }
}

#[derive(Debug)]
struct Arbiter {
    /// Since when a handler, or a flooded mailbox, has kept it busy.
    busy: Option<u64>,
    /// The number of causes that keep it busy: a flood, and a handler that blocks.
    depth: u32,
    /// The time at which the last of them ended.
    freed: u64,
    /// The time of its driver's last poll: a flooded actor lets others in after many of its own messages.
    driven: u64,
}

impl Arbiter {
    /// Returns the time since which its driver has not been polled, as far as known.
    fn missing(&self) -> Option<u64> {
        self.busy.map(|busy| busy.max(self.driven))
    }
}

/// The records shared by all threads of a simulation.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<Log>>);

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) entries: Vec<Entry>,
    pub(crate) series: Vec<Series>,
    pub(crate) recipients: Vec<Recipient>,
    arbiters: Vec<Arbiter>,
    steps: u64,
    failure: Option<String>,
    /// Whether the actors accept requests to run their closures.
    pub(crate) accepts: bool,
    any_stopped: bool,
    /// A lower bound of the end of the last preemption of a thread.
    disturbed: u64,
    /// Drains in progress.
    pub(crate) drains: u32,
    /// Whether there has been a drain.
    pub(crate) any_drain: bool,
    /// Whether the services are being stopped.
    pub(crate) is_over: bool,
    /// The number of notes dropped with a returned closure.
    drop_drains: Option<u32>,
}

/// The content of each message: records when it is handled, and dropped.
pub(crate) struct Note {
    pub(crate) records: Records,
    pub(crate) number: usize,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.records.dropped(self.number);
    }
}

macro_rules! tell {
    ($($text:tt)*) => {
        if seeds::is_replay() {
            println!("{:>12} {}", simulation::now(), format_args!($($text)*));
        }
    };
}

pub(crate) use tell;

impl Log {
    pub(crate) fn step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    pub(crate) fn fail(&mut self, failure: String) {
        tell!("FAILURE {failure}");
        self.failure.get_or_insert(failure);
    }

    /// Whether a message that is handled now may pass closures: before, its actor had run none for the watchdog's grace
    /// period, or since the watchdog was preempted after it had read its clock. A message that it posted then may be
    /// handled behind a closure of this moment.
    fn may_pass(&self, message: usize) -> bool {
        let (message, grace) = (&self.entries[message], GRACE.as_nanos() as u64);
        let has_run = |other: &&Entry| other.handled.is_some() && other.handled_at < message.handled_at;
        let closures = self.entries.iter().filter(|other| other.is_closure).filter(has_run);
        let here = closures.filter(|other| (other.recipient, other.service) == (message.recipient, message.service));
        let last = here.map(|other| other.handled_at).max();
        let starves = last.is_none_or(|last| last + grace <= message.handled_at || last <= self.disturbed);
        !self.accepts && !message.is_closure && starves
    }
}

/// Returns the time by which a flooded recipient must have handled a message, unless its handler blocks. One check of
/// the watchdog may be in vain, because the inbox has taken a message before, and each message goes through the
/// mailbox.
fn latest_in_flood(log: &Log, entry: &Entry, flooded: u64, patience: u64) -> Option<u64> {
    let recipient = log.recipients[entry.recipient];
    let arbiter = &log.arbiters[recipient.arbiter];
    let waits_for_the_end = entry.is_closure && !log.accepts;
    if arbiter.depth > 1 || recipient.waits > 0 || entry.kind.may_wait() || waits_for_the_end {
        return None;
    }
    let busy = log.arbiters[entry.service].missing().unwrap_or(0);
    let ahead = log.entries.iter().filter(|other| other.recipient == entry.recipient).count() as u64;
    let since = (entry.last_tick() * MILLISECOND).max(flooded).max(busy).max(arbiter.freed).max(log.disturbed);
    Some(since + 2 * patience + ahead * FLOOD_PACE)
}

impl Records {
    // No thread of the simulation stops while it holds this.
    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fail(&self, failure: String) {
        self.log().fail(failure);
    }

    /// # Errors
    /// Returns the first failure.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.log().failure.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn add_arbiter(&self) {
        self.log().arbiters.push(Arbiter { busy: None, depth: 0, freed: 0, driven: 0 });
    }

    pub(crate) fn add_recipient(&self, arbiter: usize) -> usize {
        let mut log = self.log();
        log.recipients.push(Recipient { arbiter, incarnation: 0, is_gone: false, waits: 0, flooded: None });
        log.recipients.len() - 1
    }

    pub(crate) fn recipient(&self, recipient: usize) -> Recipient {
        self.log().recipients[recipient]
    }

    pub(crate) fn set_busy(&self, arbiter: usize, busy: bool) {
        tell!("arbiter {arbiter} busy: {busy}");
        let arbiter = &mut self.log().arbiters[arbiter];
        if busy {
            arbiter.depth += 1;
            arbiter.busy.get_or_insert_with(simulation::now);
        } else {
            arbiter.depth -= 1;
            arbiter.freed = simulation::now();
            arbiter.busy = arbiter.busy.filter(|_| arbiter.depth > 0);
        }
    }

    /// Records that the driver of an arbiter is polled.
    pub(crate) fn driven(&self, arbiter: usize) {
        self.log().arbiters[arbiter].driven = simulation::now();
    }

    /// Records the start or end of a flood of its mailbox.
    pub(crate) fn set_flooded(&self, recipient: usize, flooded: bool) {
        tell!("recipient {recipient} flooded: {flooded}");
        let arbiter = self.recipient(recipient).arbiter;
        self.set_busy(arbiter, flooded);
        self.log().recipients[recipient].flooded = flooded.then(simulation::now);
    }

    pub(crate) fn set_waits(&self, recipient: usize, waits: bool) {
        tell!("recipient {recipient} waits: {waits}");
        let count = &mut self.log().recipients[recipient].waits;
        *count = if waits { *count + 1 } else { count.saturating_sub(1) };
    }

    pub(crate) fn stops(&self, recipient: usize, for_good: bool) {
        tell!("recipient {recipient} stops, for good: {for_good}");
        let mut log = self.log();
        log.any_stopped = true;
        log.recipients[recipient].incarnation += 1;
        log.recipients[recipient].waits = 0;
        log.recipients[recipient].is_gone |= for_good;
    }

    /// Records that a timer is about to be scheduled.
    pub(crate) fn schedule(&self, kind: Kind, service: usize, recipient: usize, delay: u64) -> Note {
        let mut log = self.log();
        let called = log.step();
        let (now, incarnation) = (simulation::now(), log.recipients[recipient].incarnation);
        let entry = Entry::new(kind, service, recipient, incarnation);
        log.entries.push(Entry { called, least: now + delay, at_once: delay == 0, ..entry });
        let number = log.entries.len() - 1;
        tell!("schedule {number} {kind:?} service {service} recipient {recipient} after {} us", delay / 1000);
        drop(log);
        Note { records: self.clone(), number }
    }

    /// Records that an entry is a closure. Returns whether its actor accepts requests to run it.
    pub(crate) fn closure(&self, number: usize) -> bool {
        let mut log = self.log();
        tell!("closure {number}, accepted: {}", log.accepts);
        log.entries[number].is_closure = true;
        log.accepts
    }

    pub(crate) fn scheduled(&self, number: usize, id: Option<TimerId>, delay: u64) {
        tell!("scheduled {number}: {}", id.is_some());
        let mut log = self.log();
        let step = log.step();
        let entry = &mut log.entries[number];
        entry.returned = Some(step);
        entry.returned_at = simulation::now();
        entry.is_set = true;
        entry.most = simulation::now() + delay;
        entry.id = id;
        entry.rejected = id.is_none();
        log.series_scheduled(number);
    }

    /// Returns the number, id and service of a timer that can be cancelled or moved, if there is one.
    pub(crate) fn any_timer(&self) -> Option<(usize, TimerId, usize)> {
        let log = self.log();
        let count = log.entries.len().min(12);
        let number = log.entries.len().checked_sub(1 + simulation::random(count as u64) as usize)?;
        Some((number, log.id_of(number)?, log.entries[number].service))
    }

    pub(crate) fn cancelled(&self, number: usize) {
        tell!("cancelled {number}");
        let mut log = self.log();
        if log.entries[number].series.is_some() {
            return log.series_cancelled(number);
        }
        let entry = &mut log.entries[number];
        entry.cancels -= 1;
        let is_wrong = entry.cancelled || entry.handled.is_some() || entry.drained;
        let is_kept = !entry.dropped;
        entry.cancelled = true;
        if is_wrong {
            let failure = format!("cancelled, but it had ended before: {number} {:?}", log.entries[number]);
            log.fail(failure);
        } else if is_kept {
            let failure = format!("cancelled, but its message was not dropped: {number} {:?}", log.entries[number]);
            log.fail(failure);
        }
    }

    /// Records that a timer is about to be cancelled.
    pub(crate) fn cancel(&self, number: usize) {
        let mut log = self.log();
        let first = log.first_of(number);
        log.entries[first].cancels += 1;
    }

    /// Records a cancel that came too late.
    pub(crate) fn not_cancelled(&self, number: usize, is_in_progress: bool) {
        tell!("not cancelled: {number}, in progress: {is_in_progress}");
        let mut log = self.log();
        if log.entries[number].series.is_some() {
            return if is_in_progress { log.series_ends(number) } else { log.series_not_found(number) };
        }
        log.entries[number].cancels -= 1;
    }

    /// Records a cancel that found no such timer pending.
    pub(crate) fn not_found(&self, number: usize) {
        tell!("not found: {number}");
        let mut log = self.log();
        if log.entries[number].series.is_some() {
            return log.series_not_found(number);
        }
        log.entries[number].cancels -= 1;
        let entry = &log.entries[number];
        if entry.cancels > 0 || log.drains > 0 {
            // Another call may have ended it, and not returned yet.
            return;
        }
        let has_ended_with_owner =
            entry.kind == Kind::Own && entry.incarnation != log.recipients[entry.recipient].incarnation;
        // It has ended once it is in the mailbox, or taken for its handler; its slot may have been reused since.
        let may_be_sent =
            matches!(entry.kind, Kind::Own | Kind::Plain | Kind::Windowed) && simulation::now() >= entry.least;
        if !entry.dropped
            && entry.handled.is_none()
            && !may_be_sent
            && !has_ended_with_owner
            && !entry.drained
            && !log.recipients[entry.recipient].is_gone
        {
            let failure = format!("not found, but nothing has become of it: {number} {entry:?}");
            log.fail(failure);
        }
    }

    /// Records that a timer is about to be moved. One thread at a time moves it.
    pub(crate) fn move_to(&self, number: usize, delay: u64) -> Option<(u64, u64)> {
        let mut log = self.log();
        if log.entries[number].series.is_some() {
            return log.move_series(number, delay);
        }
        let entry = &mut log.entries[number];
        if entry.moves || entry.returned.is_none() {
            return None;
        }
        tell!("move {number} after {} us", delay / 1000);
        let before = (entry.least, entry.most);
        entry.moves = true;
        entry.least = entry.least.min(simulation::now() + delay);
        entry.most = u64::MAX;
        Some(before)
    }

    pub(crate) fn moved(
        &self,
        number: usize,
        delay: u64,
        (least, most): (u64, u64),
        began: (u64, u64),
        outcome: RescheduleOutcome,
    ) {
        tell!("moved {number}: {outcome:?}");
        let mut log = self.log();
        if log.entries[number].series.is_some() {
            return log.series_moved(number, delay, least, began, outcome);
        }
        let moved = outcome == RescheduleOutcome::Rescheduled;
        let step = log.step();
        let entry = &mut log.entries[number];
        entry.moves = false;
        if moved {
            entry.called = began.0;
            entry.returned = Some(step);
            entry.returned_at = simulation::now();
            entry.least = began.1 + delay;
            entry.most = simulation::now() + delay;
            entry.at_once = delay == 0;
        } else {
            (entry.least, entry.most) = (least, most);
        }
    }

    pub(crate) fn step(&self) -> u64 {
        self.log().step()
    }

    pub(crate) fn handled(&self, number: usize, recipient: usize) {
        tell!("handled {number}");
        let mut log = self.log();
        let step = log.step();
        let incarnation = log.recipients[recipient].incarnation;
        let entry = &mut log.entries[number];
        entry.handled_at = simulation::now();
        let is_again = entry.handled.replace(step).is_some();
        log.entries[number].may_pass = log.may_pass(number);
        let entry = &log.entries[number];
        let failure = if is_again {
            "handled twice"
        } else if entry.cancelled {
            "handled, but it was cancelled"
        } else if entry.drained {
            "handled, but it was given back"
        } else if entry.recipient != recipient {
            "handled by another"
        } else if simulation::now() < entry.least {
            "handled too early"
        } else if entry.kind == Kind::Own && entry.incarnation != incarnation {
            "handled by another incarnation"
        } else {
            return log.series_handled(number, step);
        };
        let failure = format!("{failure}: {number} {:?}", log.entries[number]);
        log.fail(failure);
    }

    /// Records the start of a drain, or its end, after all returned messages were recorded.
    pub(crate) fn drains(&self, begins: bool) {
        tell!("drain: {begins}");
        let mut log = self.log();
        log.any_drain = true;
        log.drains = if begins { log.drains + 1 } else { log.drains - 1 };
    }

    pub(crate) fn drained(&self, number: usize) {
        tell!("drained {number}");
        let mut log = self.log();
        let entry = &mut log.entries[number];
        let is_wrong = entry.cancelled || entry.handled.is_some() || entry.drained;
        entry.drained = true;
        let series = entry.series;
        if let Some(series) = series {
            log.series[series].is_drained = true;
        }
        if is_wrong {
            let failure = format!("given back, but it had ended before: {number} {:?}", log.entries[number]);
            log.fail(failure);
        }
    }

    /// Drops a returned closure, whose note then counts as drained.
    pub(crate) fn drained_by_drop(&self, drop: impl FnOnce()) {
        self.log().drop_drains = Some(0);
        drop();
        if self.log().drop_drains.take() != Some(1) {
            self.fail("a drain returned an unknown message".to_owned());
        }
    }

    fn dropped(&self, number: usize) {
        if let Some(notes) = &mut self.log().drop_drains {
            *notes += 1;
        }
        if self.log().drop_drains.is_some() {
            self.drained(number);
        }
        let mut log = self.log();
        if std::mem::replace(&mut log.entries[number].dropped, true) {
            log.fail(format!("dropped twice: {number}"));
        }
    }

    /// Checks, when all threads wait for work, that no due timer is unhandled, and that a wake-up is set for the next.
    pub(crate) fn check_rest(&self, next: Option<u64>) {
        self.check_open(next, |log, entry| {
            let recipient = log.recipients[entry.recipient];
            (!entry.kind.may_wait() && recipient.waits == 0).then_some(entry.last_tick() * MILLISECOND)
        });
    }

    /// The same when no more time will pass.
    pub(crate) fn check_end(&self) {
        self.log().is_over = true;
        self.check_open(None, |log, entry| (log.recipients[entry.recipient].waits == 0).then_some(0));
    }

    /// Notes that a thread, perhaps the watchdog during a check, is preempted at least until then.
    pub(crate) fn disturbed(&self, until: u64) {
        let mut log = self.log();
        log.disturbed = log.disturbed.max(until);
    }

    /// Checks, while some arbiters are busy, that the watchdog delivers in time.
    pub(crate) fn check_busy(&self) {
        /// The watchdog waits for 20 ms, checks every 10 ms, and ticks are rounded up.
        const LATEST: u64 = 31 * MILLISECOND;
        self.check_open(None, |log, entry| {
            let recipient = log.recipients[entry.recipient];
            if let Some(flooded) = recipient.flooded {
                return latest_in_flood(log, entry, flooded, LATEST);
            }
            let busy = log.arbiters[entry.service].missing()?;
            let is_free =
                log.arbiters[recipient.arbiter].busy.is_none() && recipient.waits == 0 && !entry.kind.may_wait();
            is_free.then_some((entry.last_tick() * MILLISECOND).max(busy).max(log.disturbed) + LATEST)
        });
    }

    /// Checks that no open entry was to be handled by `latest`, now or, if later, at the `next` event.
    fn check_open(&self, next: Option<u64>, latest: impl Fn(&Log, &Entry) -> Option<u64>) {
        let mut log = self.log();
        let now = simulation::now();
        let forgotten = log.entries.iter().enumerate().find(|(_, entry)| {
            let recipient = log.recipients[entry.recipient];
            let has_ended = recipient.is_gone
                || (entry.kind == Kind::Own && entry.incarnation != recipient.incarnation)
                // A message in the mailbox of a stopped incarnation may be dropped with it.
                || entry.dropped
                || entry.series.is_some_and(|series| log.series[series].is_dropped);
            if has_ended || !entry.is_open() {
                return false;
            }
            latest(&log, entry).is_some_and(|latest| latest <= now || next.is_some_and(|next| next > latest))
        });
        if let Some((number, entry)) = forgotten {
            let failure = format!("not handled at {now}, next at {next:?}: {number} {entry:?}");
            log.fail(failure);
        }
    }

    /// Checks the order of all handled messages, and that every message has been dropped.
    pub(crate) fn check_order(&self) {
        let mut log = self.log();
        let mut handled: Vec<(usize, &Entry)> = log
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.handled.is_some() && !entry.moves && !entry.unordered)
            .collect();
        handled.sort_by_key(|(_, entry)| entry.handled);
        let mut failure = None;
        for (place, (first, earlier)) in handled.iter().enumerate() {
            for (second, later) in &handled[place + 1..] {
                if earlier.recipient != later.recipient || earlier.service != later.service {
                    continue;
                }
                let was_before = later.returned.is_some_and(|returned| returned < earlier.called)
                    && later.last_tick() <= earlier.first_tick();
                let was_due_before =
                    later.last_tick() < earlier.first_tick() && later.returned_at < earlier.first_tick() * MILLISECOND;
                let is_wrong = (was_before || was_due_before) && later.kind.comes_before(earlier.kind);
                if is_wrong && !(earlier.may_pass && later.is_closure) {
                    failure.get_or_insert_with(|| format!("{first} before {second}: {earlier:?} {later:?}"));
                }
            }
        }
        let kept = log.entries.iter().enumerate().find(|(_, entry)| entry.is_made && !entry.dropped);
        let failure = failure.or_else(|| kept.map(|(number, entry)| format!("never dropped: {number} {entry:?}")));
        let kept = log.series.iter().find(|series| !series.is_dropped);
        let failure = failure.or_else(|| kept.map(|series| format!("its source was never dropped: {series:?}")));
        if let Some(failure) = failure {
            log.fail(failure);
        }
    }

    /// Checks the counters of a service, once it has ended.
    pub(crate) fn check_counters(&self, service: usize, counters: &crate::engine::Counters) {
        let mut log = self.log();
        let count = |is: fn(&Entry) -> bool| {
            log.entries.iter().filter(|entry| entry.service == service && is(entry)).count() as u64
        };
        // A repeating timer that continues accepts its next repetition when a message is handed over.
        let most = count(|entry| !entry.rejected);
        let least = most - log.uncertain_of(service);
        let (handled, cancelled) =
            (count(|entry| entry.handled.is_some()), count(|entry| entry.cancelled && entry.series.is_none()));
        let cancelled = cancelled + log.series_cancelled_of(service);
        let drained = count(|entry| entry.drained);
        let is_right = counters.balance()
            && counters.pending == 0
            && (least..=most).contains(&counters.accepted)
            && counters.returned == drained
            && counters.delivered >= handled
            && counters.cancelled >= cancelled
            && (log.any_stopped || drained > 0 || (counters.delivered == handled && counters.cancelled == cancelled));
        if !is_right {
            let seen =
                format!("accepted {least} to {most}, handled {handled}, cancelled {cancelled}, drained {drained}");
            log.fail(format!("the counters of service {service} are wrong: {seen}, but {counters:?}"));
        }
    }
}
