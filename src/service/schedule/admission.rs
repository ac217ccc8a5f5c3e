//! Admission: a request becomes a timer in the engine and a message in its store, or is rejected with its message.
//!
//! A single request passes [`Service::try_schedule`]: the [content](Content::first_run) computes the deadline, the
//! [destination](Destination::store) selects the store, and [`State::admit`] admits. [`Service::schedule_batch`] takes the
//! same steps with many single messages, from one reading of the clock and under one lock.
//!
//! The reason of a rejection is a [`ScheduleError`] without messages, joined with them when the lock is released.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{KeyScope, Marks, OwnerId, Recurrence, RejectReason, Timer};
use crate::model::closure::Place;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::Calendar;
use crate::model::request_time::RequestTime;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Content, Destination, Job, MessageOf};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::once::Once;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::deadline::{DueTime, Schedule};
use crate::service::schedule::first_run::FirstRun;
use crate::service::state::{Service, State};
use crate::timing::Key;

/// The driver is woken after this many admissions, even if none is due earlier than its alarm: a bucket far away may
/// have become so full that its cascade has to begin early.
const POKE_EVERY: u64 = 4096;

/// Timers of a batch that are admitted under one lock: some microseconds' worth.
pub(crate) const ADMITTED_AT_ONCE: usize = 64;

/// A request for a timer, apart from its times, its recipient and its messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct TimerRequest<'o> {
    /// The age of the request, measured before the call.
    pub(crate) waited: Duration,
    /// The caller's id.
    pub(crate) id: Option<TimerId>,
    pub(crate) options: Option<&'o TimerOptions>,
    /// The actor that schedules for itself.
    pub(crate) owner: Option<OwnerId>,
    /// The place of the call, if it names the type of the messages.
    pub(crate) place: Option<Place>,
}

/// A request for one message of a batch.
pub(crate) struct BatchEntry<M: TimerMessage> {
    pub(crate) target: Target<M>,
    pub(crate) schedule: Schedule,
    pub(crate) requested: RequestTime,
    pub(crate) options: Option<Arc<TimerOptions>>,
    pub(crate) message: M,
}

/// An admitted timer, and the message of the one that had its key; or the reason of its rejection, its rest and its
/// messages. For use after unlocking.
type Admission<C> =
    Result<(Key, Option<MessageRef>), (ScheduleError<()>, Rest<MessageOf<C>>, <C as Content>::Messages)>;

/// The target and the calendar of a rejected timer.
type Rest<M> = (Option<Target<M>>, Option<Box<Calendar>>);

/// A year in seconds, beyond all buckets: in the sum of all delays one for ever would hide the others.
const MAX_RECORDED_DELAY: f64 = 365.0 * 86_400.0;

impl Service {
    /// Schedules the messages of one timer. If it is rejected, its message becomes a dead letter, and the id is that of
    /// no timer.
    #[inline(always)]
    pub(crate) fn schedule<C, D>(
        &self,
        times: C::Times,
        request: TimerRequest<'_>,
        to: D,
        messages: C::Messages,
    ) -> TimerId
    where
        C: Content,
        D: Destination<MessageOf<C>>,
    {
        match self.try_schedule::<C, D>(times, request, to, messages) {
            Ok(id) => id,
            Err(rejected) => self.lose_rejected::<C>(rejected, D::message_type(request.place), D::IS_THREAD_BOUND),
        }
    }

    /// Schedules the messages of one timer. If it is rejected, the error returns them.
    #[inline(always)]
    pub(crate) fn try_schedule<C, D>(
        &self,
        times: C::Times,
        request: TimerRequest<'_>,
        to: D,
        messages: C::Messages,
    ) -> Result<TimerId, ScheduleError<C::Messages>>
    where
        C: Content,
        D: Destination<MessageOf<C>>,
    {
        let FirstRun { due_time, recurrence, calendar } = match C::first_run(times, self, self.clock.now(), request) {
            Ok(first_run) => first_run,
            Err(reason) => return Err(self.reject(reason, messages)),
        };
        let mut wakeup = Wakeup::default();
        let mut state = self.state();
        let admission = state.admit::<C, D>(&due_time, (recurrence, calendar), request, to, messages, &mut wakeup);
        match admission.as_ref().ok().and_then(|(_, replaced)| *replaced) {
            Some(payload) => self.discard(state, payload),
            None => drop(state),
        }
        self.notify(wakeup);
        self.answer::<C>(&due_time, request.id, admission)
    }

    /// Schedules some messages, in order, with one reading of the clock and one lock.
    pub(crate) fn schedule_batch<M: TimerMessage>(
        &self,
        mut entries: Vec<BatchEntry<M>>,
        answers: &mut Vec<Result<TimerId, ScheduleError<M>>>,
    ) {
        // Before the reading: an age that ends after it would make the message due too early.
        let ages: Vec<_> = entries.iter().map(|entry| self.clock.since(entry.requested)).collect();
        let now = self.clock.now();
        let options: Vec<_> = entries.iter_mut().map(|entry| entry.options.take()).collect();
        let prepared: Vec<_> = entries
            .into_iter()
            .zip(ages)
            .zip(&options)
            .map(|((BatchEntry { target, schedule, message, .. }, waited), options)| {
                let options = options.as_deref();
                let due_time = self.due_time(now, waited, schedule, options);
                (due_time, TimerRequest { options, ..TimerRequest::default() }, target, message)
            })
            .collect();
        let (mut wakeup, mut replaced) = (Wakeup::default(), Vec::new());
        let mut state = self.state();
        let admissions: Vec<_> = prepared
            .into_iter()
            .map(|(due_time, request, target, message)| {
                let admission =
                    state.admit::<Once<M>, _>(&due_time, (None, None), request, target, message, &mut wakeup);
                replaced.extend(admission.as_ref().ok().and_then(|(_, replaced)| *replaced));
                (due_time, admission)
            })
            .collect();
        drop(state);
        replaced.into_iter().for_each(|payload| self.discard(self.state(), payload));
        self.notify(wakeup);
        answers.extend(
            admissions.into_iter().map(|(due_time, admission)| self.answer::<Once<M>>(&due_time, None, admission)),
        );
    }

    /// Answers a request.
    #[inline(always)]
    fn answer<C: Content>(
        &self,
        due_time: &DueTime,
        id: Option<TimerId>,
        admission: Admission<C>,
    ) -> Result<TimerId, ScheduleError<C::Messages>> {
        match admission {
            Ok((key, _)) => {
                let delay = due_time.delay;
                self.meters.schedule_delay.record(delay.as_secs_f64().min(MAX_RECORDED_DELAY));
                let id = id.unwrap_or_else(|| TimerId::of_timer(self.number, key));
                self.begin_span(key, id, delay);
                Ok(id)
            }
            Err((reason, rest, messages)) => {
                self.drop_contained(rest);
                Err(self.reject(reason, messages))
            }
        }
    }

    /// Counts a rejection, and returns it with the messages. Not inlined: the messages of accepted requests are moved
    /// piece by piece where they could become part of an error.
    #[cold]
    #[inline(never)]
    fn reject<P>(&self, reason: ScheduleError<()>, messages: P) -> ScheduleError<P> {
        match reason {
            ScheduleError::DuplicateId { .. } => self.meters.rejected_duplicate.increment(1),
            ScheduleError::ZeroPeriod { .. } | ScheduleError::NeverDue { .. } => {
                self.meters.rejected_invalid.increment(1);
            }
            // The engine has counted it.
            _ => {}
        }
        if self.is_stopped() {
            // No turn follows that would.
            self.contain(|| self.publish_after_stop());
        }
        reason.map(|()| messages)
    }
}

impl State {
    /// Admits a timer with its message and labels, in place of the one that had its key. The exchange is atomic: no one
    /// sees both, or neither.
    #[inline(always)]
    fn admit<C, D>(
        &mut self,
        due_time: &DueTime,
        (recurrence, calendar): (Option<Recurrence>, Option<Box<Calendar>>),
        TimerRequest { id, options, owner, place, .. }: TimerRequest<'_>,
        to: D,
        messages: C::Messages,
        wakeup: &mut Wakeup,
    ) -> Admission<C>
    where
        C: Content,
        D: Destination<MessageOf<C>>,
    {
        let store = D::store::<C>(&mut self.stores, place);
        let name = id.map(|id| id.as_uuid().as_u128());
        if let Some((id, name)) = id.zip(name)
            && self.engine.named(name).is_some_and(|key| self.engine.timer(key).is_some())
        {
            return Err((ScheduleError::DuplicateId { id, message: () }, (to.into_target(), calendar), messages));
        }
        if !self.lanes.ended.is_empty() {
            self.make_room();
        }
        // Admission and rejection both change the counters to publish.
        wakeup.poke |= self.reports.published.ask_to_publish();
        // A target that had gone before it was named has no keys.
        let mailbox = || to.target()?.facts().mailbox;
        let key_scope = || owner.map(KeyScope::Owner).or_else(|| mailbox().map(KeyScope::from));
        let scoped = options.and_then(|options| Some((options, key_scope()?)));
        let label = scoped.and_then(|(options, scope)| self.key_types.scoped_key(options, scope, D::key_type()));
        let old = label.as_ref().and_then(|key| self.engine.labels().holder(key));
        let slab = self.stores.slab::<Job<C, D>>(store);
        let Some((slab, slot)) = slab.and_then(|slab| slab.reserve().map(|slot| (slab, slot))) else {
            let rejected = self.engine.reject(RejectReason::Capacity);
            return Err((self.reason(rejected), (to.into_target(), calendar), messages));
        };
        let payload = MessageRef { store, slot };
        // A recipient that is no owner is not kept alive.
        let is_kept = options.and_then(|options| options.keep_alive).unwrap_or(D::IS_THREAD_BOUND) && owner.is_some();
        let key = match self.engine.schedule(
            self.tags.next(),
            due_time.now,
            due_time.deadline,
            owner,
            Timer::new(payload, Marks::keeping(is_kept)),
            old,
        ) {
            Ok(key) => key,
            Err(rejected) => {
                slab.give_back(slot);
                return Err((self.reason(rejected), (to.into_target(), calendar), messages));
            }
        };
        slab.fill(slot, Job { to, content: C::new(messages, calendar) });
        if let Some(recurrence) = recurrence {
            // There is room for as many recurrences as timers.
            self.engine.set_recurrence(key, recurrence);
        }
        if let Some(wall) = due_time.wall {
            self.engine.set_wall_time(key, wall);
        }
        if let Some(name) = name {
            self.engine.set_name(key, name);
        }
        let replaced = old.and_then(|old| self.replace(old));
        if let Some(options) = options {
            self.engine.label(key, label, options.group.clone());
        }
        wakeup.poke |= self.engine.counters().accepted.is_multiple_of(POKE_EVERY);
        self.expect(due_time, wakeup);
        Ok((key, replaced))
    }

    /// Returns the reason of a rejection by the engine, as shown to users.
    #[cold]
    fn reason(&self, rejected: RejectReason) -> ScheduleError<()> {
        match rejected {
            RejectReason::Capacity => {
                ScheduleError::CapacityReached { capacity: self.engine.config().capacity, message: () }
            }
            RejectReason::Closed => ScheduleError::Stopped { message: () },
        }
    }

    /// Cancels the timer that had the key of a new one. A message that is under way already continues without the key.
    #[cold]
    #[inline(never)]
    fn replace(&mut self, old: Key) -> Option<MessageRef> {
        self.engine.cancel(old).ok()
    }
}
