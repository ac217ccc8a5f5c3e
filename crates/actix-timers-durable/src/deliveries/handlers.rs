//! From a claim to the end of a handler, and its next state in the store.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::{DurableTimerActor, Event, Handling, InFlight};
use crate::committer::Ended;
use crate::due_time::DueTime;
use crate::ends;
use crate::envelope::{EndInTransaction, HandlerError, Then, UnderWay};
use crate::id::DurableId;
use crate::metrics::Counted;
use crate::pause::Pause;
use crate::record::RetryPolicy;
use crate::reply::{Answer, NoReply, withdrawable};
use crate::store::{Delivery, Hint, Next, Op, Outcome, Record};
use crate::trace;

/// The reason of a failure if a transaction that ends the delivery was rolled back.
const NOT_COMMITTED: &str = "the transaction that ends the delivery was not committed";

impl DurableTimerActor {
    pub(super) fn deliver(&mut self, hint: Hint, record: Arc<Record>) {
        let delivery = record.delivery();
        let options = &self.parts.routes.get(hint.route).options;
        let (retry, keeps_past) = (record.retry_policy(options.retry), options.keep_past.is_some());
        let in_flight =
            InFlight { hint, record: Arc::clone(&record), handling: None, in_transaction: None, next: None };
        self.in_flight.insert(record.id, in_flight);
        if self.stopping.is_some() || !self.has_lease() {
            return self.end(delivery, Next::GiveBack);
        }
        // A hand may have changed its route since the look.
        if let Some(route) = self.parts.routes.number_of(&record).filter(|route| *route != hint.route) {
            self.end(delivery, Next::GiveBack);
            self.in_flight.entry(record.id).and_modify(|it| it.hint.route = route);
            return;
        }
        if let Some(reason) = ends::unknown_repetition(&record) {
            return self.park(&record, &reason);
        }
        let node = Some((self.parts.committer.clone(), Arc::clone(self.parts.timers.clock())));
        let deadline = self.now().saturating_add(retry.timeout);
        let under_way = Arc::new(UnderWay::new(Arc::clone(&record), retry, node, deadline, self.wall(), keeps_past));
        let answering = match self.parts.routes.deliver(hint.route, &under_way) {
            Ok(Some(answering)) => answering,
            // The recipient has stopped since the claim.
            Ok(None) => {
                self.end(delivery, Next::GiveBack);
                return self.close_route(hint.route);
            }
            Err(error) => {
                trace::undecodable(&record, &error);
                return self.park(&record, &error.to_string());
            }
        };
        self.parts.committer.meters().delivered(self.wall().saturating_since(record.progress.due));
        let actor = self.parts.actor.clone();
        let (answering, withdrawal) = withdrawable(answering);
        actix::spawn(async move {
            if let Some(answer) = answering.await {
                actor.do_send(Event::Answered(delivery, answer));
            }
        });
        self.timeouts.insert((deadline, record.id));
        self.handling += 1;
        if let Some(in_flight) = self.in_flight.get_mut(&record.id) {
            in_flight.handling = Some(Handling { under_way, retry, deadline, withdrawal });
        }
    }

    fn park(&mut self, record: &Record, reason: &str) {
        self.end(record.delivery(), ends::parked(reason));
    }

    /// Takes a delivery out of the window, and withdraws its message if the handler has not begun.
    fn stop_handling(&mut self, delivery: Delivery) -> Option<(Arc<UnderWay>, RetryPolicy)> {
        let in_flight = self.in_flight.get_mut(&delivery.id)?;
        if in_flight.record.delivery() != delivery {
            return None;
        }
        let Handling { under_way, retry, deadline, withdrawal } = in_flight.handling.take()?;
        self.timeouts.remove(&(deadline, delivery.id));
        self.handling -= 1;
        under_way.end();
        withdrawal.withdraw();
        if self.handling == 0 {
            self.alone.end(self.now());
        }
        Some((under_way, retry))
    }

    /// Has no handler of an earlier attempt any more: another node has claimed the timer since.
    pub(super) fn leave_earlier(&mut self, id: DurableId) {
        let Some(earlier) = self.in_flight.get(&id).map(|it| it.record.delivery()) else { return };
        self.cancel_handler(id);
        if self.stop_handling(earlier).is_some() {
            self.leave_window(earlier, None);
        }
    }

    /// Ends a delivery after the answer of its handler; none after its time-out.
    pub(super) fn answered(&mut self, delivery: Delivery, answer: Option<Answer>) {
        let Some((under_way, retry)) = self.stop_handling(delivery) else { return };
        self.alone.note_timeout(answer.is_none());
        let mut answer = answer.unwrap_or(Err(NoReply::Overdue(retry.timeout)));
        if let Some((due, end)) = under_way.written.get() {
            self.parts.committer.meters().count(end.end, 1);
            self.judge(&under_way.record, end);
            self.leave_window(delivery, end.nominal);
            let outcome = Outcome::Ended { due: *due };
            return self.ended(Ended { delivery, outcome, dead: end.reason_of_death() });
        }
        let in_transaction = under_way.said().in_transaction.clone();
        if in_transaction.is_some() && matches!(answer, Ok(Ok(()))) {
            // It counts only if the row is still there.
            answer = Ok(Err(HandlerError::new(NOT_COMMITTED)));
        }
        let failure = ends::failure(&answer).map(|text| ends::shortened(&text));
        let is_given_up = matches!(&answer, Ok(Err(error)) if error.then() == Then::Retry);
        let next = if self.stopping.is_some() && is_given_up {
            Next::GiveBack
        } else {
            ends::after_delivery(&under_way, &retry, answer, self.parts.timers.clock().wall())
        };
        let end = EndInTransaction { end: Counted::end(delivery, &next), nominal: None, failure };
        match in_transaction {
            // When it is written it is known whether the handler's transaction was committed.
            Some(first) => {
                _ = self.in_flight.entry(delivery.id).and_modify(|it| it.in_transaction = Some([first, end]))
            }
            None => self.judge(&under_way.record, &end),
        }
        self.end(delivery, next);
    }

    /// Has the end of a delivery written, and returns its room in the window.
    pub(super) fn end(&mut self, delivery: Delivery, next: Next) {
        self.leave_window(delivery, ends::nominal_after(&next));
        self.submit(Op::End(delivery, next));
    }

    fn leave_window(&mut self, delivery: Delivery, nominal: Option<DueTime>) {
        if let Some(InFlight { hint, .. }) = self.in_flight.get_mut(&delivery.id) {
            self.hints.return_slot(hint.route);
            hint.nominal = nominal.unwrap_or(hint.nominal);
            hint.is_suspect = false;
        }
    }

    /// Takes note of an end that is written.
    pub(super) fn ended(&mut self, Ended { delivery, outcome, dead }: Ended) {
        let this = match self.in_flight.entry(delivery.id) {
            Entry::Occupied(it) if it.get().record.delivery() == delivery => Some(it.remove()),
            _ => None,
        };
        let is_gone = outcome == Outcome::NotFound;
        let in_transaction = this.as_ref().and_then(|it| it.in_transaction.as_ref());
        if is_gone {
            let end = in_transaction.map_or(Counted::EndLost, |[committed, _]| committed.end);
            self.parts.committer.meters().count(end, 1);
        }
        let Some(InFlight { hint, record, in_transaction, next, .. }) = this else { return };
        let mut dead = dead;
        if let Some([committed, written]) = in_transaction {
            self.judge(&record, if is_gone { &committed } else { &written });
            dead = dead.or_else(|| committed.reason_of_death().filter(|_| is_gone));
        }
        if let Some(reason) = dead {
            let (now, name) = (self.now(), self.parts.timers.name());
            trace::dead_letter(&mut self.dead_letter_limits, now, name, hint.route, &record, &reason);
        }
        match outcome {
            // The earliest hint counts: a wrong one costs a claim.
            Outcome::Ended { due } => {
                let (now, ended) = (self.wall(), due.map(|due| Hint { due, ..hint }));
                next.into_iter().chain(ended).for_each(|hint| self.hints.add_earlier(hint, now));
            }
            // It was cancelled; or it is pending, and a hint of that may have been dropped meanwhile.
            _ => self.hints.pass_over(hint),
        }
    }

    /// Counts failures in a row, and pauses the route after as many as it says.
    fn judge(&mut self, record: &Record, end: &EndInTransaction) {
        let Some(number) = self.parts.routes.number_of(record) else { return };
        let (route, now) = (self.parts.routes.get(number), self.wall());
        if !self.pauses.judge(route, end.end, now) {
            return;
        }
        let failure = end.failure.as_deref().unwrap_or_default();
        let why = format!("failures in a row: {}, the last: {failure}", route.options.pause_after);
        trace::route_pauses(&route.name, &why);
        let pause = Pause::route(Arc::clone(&route.name)).by(self.parts.timers.name()).because(why);
        let (timers, working) = (self.durable(), self.parts.timers.begin_work());
        let mut pausing = Box::pin(async move {
            _ = timers.pause(pause).await;
            drop(working);
        });
        // Requested before the next claim.
        if (&mut pausing).now_or_never().is_none() {
            actix::spawn(pausing);
        }
    }

    /// Tells a handler that its timer is gone, or another node's. Returns false if there is none, or it knows.
    pub(super) fn cancel_handler(&self, id: DurableId) -> bool {
        let handling = self.in_flight.get(&id).and_then(|it| it.handling.as_ref());
        let Some(Handling { under_way, .. }) = handling else { return false };
        // The transaction of a handler may just have ended it.
        let may_have_ended = {
            let said = under_way.said();
            said.in_transaction.is_some() && !said.is_refused
        };
        if may_have_ended || under_way.is_cancelled() {
            return false;
        }
        under_way.cancel();
        true
    }

    /// The deliveries that are with their handlers.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &UnderWay> {
        self.in_flight.values().filter_map(|it| it.handling.as_ref()).map(|it| &*it.under_way)
    }

    pub(super) fn set_timeout_alarm(&mut self) {
        let Some((first, _)) = self.timeouts.first().copied() else { return };
        // An earlier alarm checks again. Deliveries are mostly short, so it seldom has to.
        if first == Duration::MAX || self.next_check.is_some_and(|(next, _)| next <= first) {
            return;
        }
        let alarm = self.alarm(first.saturating_sub(self.now()), Event::CheckTimeouts);
        if let Some((_, later)) = self.next_check.replace((first, alarm)) {
            self.parts.timers.cancel(later);
        }
    }

    pub(super) fn check_timeouts(&mut self) {
        self.next_check = None;
        let now = self.now();
        while let Some((deadline, id)) = self.timeouts.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.timeouts.remove(&(deadline, id));
            let handling = self.in_flight.get_mut(&id).and_then(|it| it.handling.as_mut());
            let Some(Handling { under_way, retry, deadline: noticed, .. }) = handling else { continue };
            if let Some(extended) = under_way.deadline_after(now) {
                retry.timeout = retry.timeout.saturating_add(extended - deadline);
                *noticed = extended;
                self.timeouts.insert((extended, id));
            } else {
                let delivery = under_way.record.delivery();
                self.answered(delivery, None);
            }
        }
        self.set_timeout_alarm();
    }

    /// Gives all deliveries back: the next start, or another node, delivers them.
    pub(super) fn release_all(&mut self) {
        let unfinished = self.in_flight.values().filter(|it| it.handling.is_some()).map(|it| it.record.delivery());
        for delivery in unfinished.collect::<Vec<_>>() {
            self.stop_handling(delivery);
            self.end(delivery, Next::GiveBack);
        }
        self.timeouts.clear();
        // A store that still does not reply.
        self.claiming.clear();
    }
}
