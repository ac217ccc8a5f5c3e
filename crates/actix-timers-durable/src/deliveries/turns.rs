//! From a hint to a claim: looks, the hints that are due, and the routes without a recipient.

use super::suspects::{ISOLATION, Turn};
use super::{DurableTimerActor, Event, GROUP};
use crate::committer::{Answered, Claimed, Request};
use crate::hints::Plan;
use crate::id::DurableId;
use crate::store::{Claim, Hint, Look, Looked, Op, Outcome, Suspects};
use crate::trace;

impl DurableTimerActor {
    /// Claims as many messages as the windows allow, and looks for more.
    pub(super) fn flush(&mut self) {
        if self.is_running() && !self.repeats {
            self.hints.expire(self.wall());
            self.claim_due();
            // A store that nodes share is looked at in intervals, but for a look that has stopped.
            if self.sharing.is_none() || self.hints.goes_on() {
                self.look();
            }
            self.set_wake();
        }
        // Else it is shown every second.
        if !self.parts.committer.has_a_thread() {
            self.show_progress();
        }
    }

    /// Goes on after hints that [`claim`](Self::claim) passes over: no event follows.
    fn claim_due(&mut self) {
        while !self.alone.is_under_way() && self.has_lease() {
            let is_idle = self.handling == 0 && self.claiming.is_empty();
            match self.alone.turn(self.now(), &self.hints, is_idle) {
                Turn::Suspect(suspects) => {
                    let suspect = self.hints.take_suspect();
                    self.claim(suspect.into_iter().collect(), suspects);
                }
                Turn::WaitBegins => {
                    self.alarm(ISOLATION, Event::Wake);
                    return;
                }
                Turn::Waits => return,
                Turn::Others => {
                    let due = self.hints.take(GROUP);
                    if due.is_empty() {
                        return;
                    }
                    self.claim(due, Suspects::Left);
                }
            }
        }
    }

    /// Asks the store for timers of connected routes.
    fn claim(&mut self, due: Vec<Hint>, suspects: Suspects) {
        let mut ids = Vec::with_capacity(due.len());
        for hint in due {
            if let Some(in_flight) = self.in_flight.get_mut(&hint.id) {
                in_flight.keep(hint);
                self.hints.return_slot(hint.route);
            } else if self.claiming.contains_key(&hint.id) {
                // A hint from before its claim.
                self.hints.return_slot(hint.route);
            } else if self.parts.routes.get(hint.route).is_connected() {
                self.claiming.insert(hint.id, hint);
                ids.push(hint.id);
            } else {
                self.hints.return_slot(hint.route);
                self.hints.pass_over(hint);
                self.close_route(hint.route);
            }
        }
        if ids.is_empty() {
            return self.alone.end(self.now());
        }
        self.submit(Op::Claim(Claim { ids, suspects }));
    }

    pub(super) fn look(&mut self) {
        if self.is_running() && !self.repeats && self.looking.is_none() {
            let now = self.wall();
            self.hints.plan_look(now).into_iter().for_each(|plan| self.begin_look(plan));
        }
    }

    fn begin_look(&mut self, plan: Plan) {
        let filter = self.parts.routes.filter(|route| plan.routes.contains(&route));
        let look = Look { after: plan.after, until: plan.until, filter, limit: plan.limit, share: plan.share.clone() };
        self.looking = Some(plan);
        self.submit(Request::Look(look));
    }

    /// Sets the alarm for the next due hint, and in a store of one process for the next look or end of a pause.
    fn set_wake(&mut self) {
        let look = self.hints.next_look().filter(|_| self.sharing.is_none() && self.looking.is_none());
        let Some(next) = self.hints.next_due().into_iter().chain(look).chain(self.pauses.next_end()).min() else {
            return;
        };
        if let Some((at, timer)) = self.next_wake {
            if at <= next {
                return;
            }
            // It may have fired.
            self.parts.timers.cancel(timer);
        }
        let timer = self.parts.timers.schedule_at(&self.parts.actor, next, Event::Wake);
        self.next_wake = Some((next, timer));
    }

    /// Stops a route whose recipient has stopped, or that has none: its timers leave the memory until it is connected to one.
    pub(super) fn close_route(&mut self, route: u16) {
        if self.hints.close(route) {
            trace::route_without_recipient(&self.parts.routes.get(route).name);
        }
    }

    /// Takes the results of a claim.
    pub(super) fn claimed(&mut self, Claimed { asked, result }: Claimed) {
        let now = self.wall();
        let has_failed = result.is_err();
        if let Ok(Outcome::Claimed { records, not_due, left, locked, .. }) = result {
            for record in records {
                let Some(hint) = self.claiming.remove(&record.id) else { continue };
                self.deliver(hint, record);
            }
            for (id, due) in not_due {
                let hint = self.unclaimed(id);
                hint.into_iter().for_each(|hint| self.hints.add(Hint { due, ..hint }, now));
            }
            for id in left {
                let hint = self.unclaimed(id);
                let other = |hint: Hint| Hint { is_suspect: !hint.is_suspect, ..hint };
                hint.map(other).into_iter().for_each(|hint| self.hints.add(hint, now));
            }
            for (id, due) in locked {
                let hint = self.unclaimed(id);
                hint.into_iter().for_each(|hint| self.hints.pass_over_locked(Hint { due, ..hint }));
            }
        }
        for id in asked {
            let hint = self.unclaimed(id).filter(|_| has_failed);
            hint.into_iter().for_each(|hint| self.hints.add(hint, now));
        }
        if has_failed {
            self.repeat_later();
        }
        if self.handling == 0 {
            self.alone.end(self.now());
        }
    }

    /// Takes a timer that was not claimed out of the window.
    fn unclaimed(&mut self, id: DurableId) -> Option<Hint> {
        let hint = self.claiming.remove(&id)?;
        self.hints.return_slot(hint.route);
        Some(hint)
    }

    pub(super) fn looked(&mut self, plan: Plan, looked: Answered<Looked>) {
        match looked {
            Ok(found) => {
                let rest = self.hints.looked(plan, &found, self.wall());
                // Hints from before their claims.
                self.claiming.keys().for_each(|id| _ = self.hints.remove(*id));
                for (id, in_flight) in &mut self.in_flight {
                    self.hints.remove(*id).into_iter().for_each(|hint| in_flight.keep(hint));
                }
                rest.into_iter().for_each(|rest| self.begin_look(rest));
            }
            Err(_) => self.repeat_later(),
        }
    }
}
