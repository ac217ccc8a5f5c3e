//! Requests to a service: schedule, cancel, move, get.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler};

use crate::engine::{NextRun, NotPending, Outcome, OwnerId, RejectReason};
use crate::model::carried::{Boxed, Carried, is_large};
use crate::model::error::{CancelOutcome, RescheduleOutcome, ScheduleError};
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::deliver::job::{Destination, Job, Own, Queued};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{MessageStores, StateGuard};
use crate::service::deliver::once::Once;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::query::description::COUNTED_ALONE;
use crate::service::schedule::admission::{Admission, Admitted, KeyOwner, NewTimer, NotAdmitted, NotAdmittedReason};
use crate::service::schedule::deadline::Schedule;
use crate::service::state::{Service, State};
use crate::timing::Key;

/// Timers of a batch that are admitted under one lock: some microseconds' worth.
const ADMITTED_AT_ONCE: usize = 64;

/// The id of a timer that was admitted, or its job and the rest of it.
pub(crate) type Placed<J, R> = Result<TimerId, ScheduleError<(J, R)>>;

/// Returns the message of a rejected request of an actor to itself.
#[inline(always)]
fn own_message<C: Carried>(answer: Placed<Once<C, Own>, ()>) -> Result<TimerId, ScheduleError<C::Message>> {
    match answer {
        Ok(id) => Ok(id),
        Err(refused) => Err(refused.map(|(once, ())| once.message.unpack())),
    }
}

/// Unpacks the message of a rejected request.
#[inline(always)]
pub(crate) fn unpacked<C: Carried>(
    answer: Result<TimerId, ScheduleError<C>>,
) -> Result<TimerId, ScheduleError<C::Message>> {
    match answer {
        Ok(id) => Ok(id),
        Err(refused) => Err(refused.map(C::unpack)),
    }
}

impl Service {
    /// Schedules a message of an actor to itself.
    #[inline(always)]
    pub(crate) fn schedule_own<A, M>(
        &self,
        schedule: Schedule,
        owner: OwnerId,
        options: Option<&TimerOptions>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        let deadline = self.deadline(self.clock.now(), schedule, options);
        let timer = NewTimer { deadline, recurrence: None, key_owner: KeyOwner::own(owner), id: None, options };
        if const { is_large::<M>() } {
            let once = Once { to: Own, message: Boxed::<M>::pack(message) };
            return own_message(self.place(&timer, MessageStores::own::<A, Once<Boxed<M>, Own>>, once, (), |_, ()| ()));
        }
        let once = Once { to: Own, message };
        own_message(self.place(&timer, MessageStores::own::<A, Once<M, Own>>, once, (), |_, ()| ()))
    }

    /// Schedules a message to a recipient, under the caller's id if one is given.
    #[inline(always)]
    pub(crate) fn schedule_for<M>(
        &self,
        schedule: Schedule,
        id: Option<TimerId>,
        options: Option<&TimerOptions>,
        target: Target<M>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: TimerMessage,
    {
        if const { is_large::<M>() } {
            return unpacked(self.place_for(schedule, id, options, target, Boxed::pack(message)));
        }
        self.place_for(schedule, id, options, target, message)
    }

    #[inline(always)]
    pub(crate) fn place_for<C: Carried>(
        &self,
        schedule: Schedule,
        id: Option<TimerId>,
        options: Option<&TimerOptions>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        let deadline = self.deadline(self.clock.now(), schedule, options);
        let timer = NewTimer { deadline, recurrence: None, key_owner: KeyOwner::recipient(&target), id, options };
        if target.is_queued(self.settings.mailbox_policy) {
            return self.place_in_queue(&timer, target, message);
        }
        self.place_once(&timer, MessageStores::plain::<Once<C, _>>, Once { to: target, message })
    }

    /// Not inlined, so that its code does not burden the other paths.
    #[inline(never)]
    fn place_in_queue<C: Carried>(
        &self,
        timer: &NewTimer<'_>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        self.place_once(timer, MessageStores::queued::<Once<C, _>>, Once { to: Queued::new(target), message })
    }

    #[inline(always)]
    fn place_once<C, D>(
        &self,
        timer: &NewTimer<'_>,
        store: fn(&mut MessageStores) -> u32,
        once: Once<C, D>,
    ) -> Result<TimerId, ScheduleError<C>>
    where
        C: Carried,
        D: Destination<C::Message>,
    {
        self.place(timer, store, once, (), |_, ()| ()).map_err(|refused| refused.map(|(once, ())| once.message))
    }

    /// Admits a timer: stores `job`, and puts `rest` into it once it is accepted.
    #[inline(always)]
    pub(crate) fn place<J: Job, R>(
        &self,
        timer: &NewTimer<'_>,
        store: fn(&mut MessageStores) -> u32,
        job: J,
        rest: R,
        put_in: impl FnOnce(&mut J, R),
    ) -> Placed<J, R> {
        let mut wakeup = Wakeup::default();
        let mut state = self.state();
        let store = store(&mut state.stores);
        let mut replaced = None;
        let admitted = match state.admit(timer, store, job, &mut wakeup) {
            Ok(admitted) => {
                replaced = admitted.replaced;
                if size_of::<R>() > 0
                    && let Some(payload) = state.engine.payload(admitted.key)
                    && let Some(job) = state.stores.stored_mut(payload)
                {
                    put_in(job, rest);
                }
                Ok(admitted)
            }
            Err(NotAdmitted { reason, job }) => Err(NotAdmitted { reason, job: (job, rest) }),
        };
        match replaced {
            Some(payload) => self.discard(state, payload),
            None => drop(state),
        }
        self.notify(wakeup);
        self.answer(timer.deadline.delay, timer.id, admitted)
    }

    /// Schedules the next `most` messages in order, with few clock reads and few locks.
    pub(crate) fn schedule_some<C: Carried>(
        &self,
        mut most: usize,
        entries: &mut impl Iterator<Item = (Schedule, Option<Arc<TimerOptions>>, Target<C::Message>, C)>,
        answers: &mut Vec<Result<TimerId, ScheduleError<C::Message>>>,
    ) {
        loop {
            // The waiting times are measured before the clock is read. In the other order they would reach beyond
            // `now`, and the messages would be due too early.
            let part: Vec<_> = entries.by_ref().take(most.min(ADMITTED_AT_ONCE)).collect();
            if part.is_empty() {
                return;
            }
            most -= part.len();
            let now = self.clock.now();
            let part: Vec<_> = part
                .into_iter()
                .map(|(schedule, options, target, message)| {
                    let deadline = self.deadline(now, schedule, options.as_deref());
                    (deadline, options, target, message)
                })
                .collect();
            let mut wakeup = Wakeup::default();
            let mut replaced = Vec::new();
            let mut state = self.state();
            let plain = state.stores.plain::<Once<C, Target<C::Message>>>();
            let admitted: Vec<_> = part
                .into_iter()
                .map(|(deadline, options, target, message)| {
                    let (delay, key_owner, options) =
                        (deadline.delay, KeyOwner::recipient(&target), options.as_deref());
                    let timer = NewTimer { deadline, recurrence: None, key_owner, id: None, options };
                    let admitted = if target.is_queued(self.settings.mailbox_policy) {
                        let store = state.stores.queued::<Once<C, Queued<C::Message>>>();
                        let once = Once { to: Queued::new(target), message };
                        state.admit(&timer, store, once, &mut wakeup).map_err(NotAdmitted::message)
                    } else {
                        state
                            .admit(&timer, plain, Once { to: target, message }, &mut wakeup)
                            .map_err(NotAdmitted::message)
                    };
                    replaced.extend(admitted.as_ref().ok().and_then(|admitted| admitted.replaced));
                    (delay, admitted)
                })
                .collect();
            self.discard_all(state, replaced);
            self.notify(wakeup);
            answers.extend(admitted.into_iter().map(|(delay, admitted)| unpacked(self.answer(delay, None, admitted))));
        }
    }

    /// Unlocks and drops messages of ended timers. The first, usually the only one, is dropped in the same step that
    /// ended its timer.
    fn discard_all<'a>(&'a self, state: StateGuard<'a>, messages: Vec<MessageRef>) {
        let mut state = Some(state);
        for payload in messages {
            self.discard(state.take().unwrap_or_else(|| self.state()), payload);
        }
    }

    /// Notifies the driver and the watchdog.
    pub(crate) fn notify(&self, wakeup: Wakeup) {
        if let Some(first) = wakeup.first_deadline {
            self.expect(first);
        }
        if wakeup.poke {
            self.driver.wake();
        }
    }

    #[inline(always)]
    pub(crate) fn answer<S>(
        &self,
        delay: Duration,
        id: Option<TimerId>,
        admitted: Admission<S>,
    ) -> Result<TimerId, ScheduleError<S>> {
        let NotAdmitted { reason, job: message } = match admitted {
            Ok(Admitted { key, .. }) => {
                self.meters.schedule_delay.record(delay.as_secs_f64());
                let id = id.unwrap_or_else(|| self.ids.id_of(key));
                self.begin_span(key, id, delay);
                return Ok(id);
            }
            Err(rejected) => rejected,
        };
        Err(match reason {
            NotAdmittedReason::Duplicate(id) => {
                self.meters.rejected_duplicate.increment(1);
                ScheduleError::DuplicateId { id, message }
            }
            NotAdmittedReason::Engine(RejectReason::Capacity) => {
                ScheduleError::CapacityReached { capacity: self.settings.engine.capacity, message }
            }
            NotAdmittedReason::Engine(RejectReason::Closed | RejectReason::OwnerEnded) => {
                ScheduleError::Stopped { message }
            }
        })
    }

    /// Cancels a timer of this service.
    pub(crate) fn cancel(&self, id: TimerId) -> CancelOutcome {
        let mut state = self.state();
        let payload = match self.find(&state, id).and_then(|key| state.engine.cancel(key)) {
            Ok(payload) => payload,
            Err(reason) => return reason.into(),
        };
        self.let_go(state, payload)
    }

    /// Cancels a timer, and drops its message after unlocking.
    pub(crate) fn stop(&self, mut state: StateGuard<'_>, key: Key) -> CancelOutcome {
        match state.engine.cancel(key) {
            Ok(payload) => self.let_go(state, payload),
            Err(reason) => reason.into(),
        }
    }

    /// Drops the message of a just cancelled timer, after unlocking.
    #[inline(always)]
    fn let_go(&self, mut state: StateGuard<'_>, payload: MessageRef) -> CancelOutcome {
        let poke = state.reports.published.ask_to_publish();
        self.discard(state, payload);
        if poke {
            self.driver.wake();
        }
        CancelOutcome::Cancelled
    }

    /// Drops the message of an ended timer, after unlocking.
    #[inline(always)]
    pub(crate) fn discard(&self, state: StateGuard<'_>, payload: MessageRef) {
        match state.stores.store(payload.store).map(|store| store.discard) {
            Some(discard) => drop(self.contain(|| discard(self, state, payload))),
            None => drop(state),
        }
    }

    /// Moves a timer of this service.
    pub(crate) fn reschedule(&self, id: TimerId, schedule: Schedule) -> RescheduleOutcome {
        let now = self.clock.now();
        let deadline = self.deadline(now, schedule, None);
        let mut state = self.state();
        let key = match self.find(&state, id) {
            Ok(key) => key,
            Err(reason) => return reason.into(),
        };
        let was_posted = state.engine.is_posted(key);
        if let Err(reason) = state.engine.reschedule(deadline.now, key, deadline.tick) {
            // A repetition takes this time for its next message, after the one that is under way.
            state.engine.ask_next(key, NextRun::At { due: deadline.due, wall: deadline.wall });
            return reason.into();
        }
        state.engine.set_due(key, deadline.due, deadline.before_origin);
        let makes_room = was_posted && state.recall(key);
        if let Some(wall) = deadline.wall {
            state.engine.set_wall_time(key, wall);
        }
        let first = state.driver.is_first(deadline.tick);
        let poke = state.reports.published.ask_to_publish()
            || first
            || (deadline.wall.is_some() && state.driver.wall_offset.is_none());
        drop(state);
        if first {
            self.expect(deadline.tick);
        }
        if makes_room {
            self.request_flush();
        }
        if poke {
            self.driver.wake();
        }
        RescheduleOutcome::Rescheduled
    }

    /// Describes a pending timer.
    pub(crate) fn get(&self, id: TimerId) -> Option<TimerInfo> {
        let now = self.clock.now();
        let state = self.state();
        let key = self.find(&state, id).ok()?;
        self.info(&state, key, now, COUNTED_ALONE)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let now = self.clock.now();
        let state = self.state();
        Snapshot::new(&self.name, self.tick, now, &state.engine)
    }

    /// Whether a timer here was scheduled under this id of the caller's, from which no location can be computed.
    pub(crate) fn has_named(&self, id: TimerId) -> bool {
        self.state().engine.named(id.as_uuid().as_u128()).is_some()
    }

    /// Returns the live key behind an id.
    pub(crate) fn find(&self, state: &State, id: TimerId) -> Result<Key, NotPending> {
        if id.actor_number().is_none() {
            return state.engine.named(id.as_uuid().as_u128()).ok_or(NotPending::Unknown);
        }
        if id.actor_number() != Some(self.number) {
            return Err(NotPending::Unknown);
        }
        let (generation, live) = state.engine.slot(id.slot()).ok_or(NotPending::Unknown)?;
        if let Some(key) = live
            && state.engine.name_of(key).is_none()
            && self.ids.is_id_of(id, key)
        {
            return Ok(key);
        }
        let last = generation.checked_sub(1).map(|generation| Key::new(id.slot(), generation));
        match last.filter(|last| self.ids.is_id_of(id, *last)).and_then(|last| state.engine.outcome(last)) {
            Some(Outcome::Delivered) => Err(NotPending::Delivered),
            _ => Err(NotPending::Unknown),
        }
    }

    pub(crate) fn id_of(&self, state: &State, key: Key) -> TimerId {
        let named = state.engine.name_of(key).and_then(|name| TimerId::from_uuid(uuid::Uuid::from_u128(name)).ok());
        named.unwrap_or_else(|| self.ids.id_of(key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use actix::prelude::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::Schedule;
    use crate::api::timer_actor::TimerActor;
    use crate::model::error::ScheduleError;
    use crate::model::id::TimerId;
    use crate::model::target::Target;

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Ring;

    struct Bell;

    impl Actor for Bell {
        type Context = Context<Self>;
    }

    impl Handler<Ring> for Bell {
        type Result = ();

        fn handle(&mut self, _: Ring, _: &mut Context<Self>) {}
    }

    /// Requests generate their own ids, so this cannot be tested from outside.
    #[test]
    fn an_id_that_a_pending_timer_has_is_refused_and_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        System::new().block_on(async {
            let timers = metrics::with_local_recorder(&recorder, || TimerActor::builder().start()).unwrap();
            let bell = Bell.start();
            let id = TimerId::new();
            let schedule = || {
                let hour = Schedule::after(Duration::from_secs(3600));
                timers.service().schedule_for(hour, Some(id), None, Target::from(&bell), Ring)
            };
            assert_eq!(schedule().ok(), Some(id));
            let refused = || {
                assert!(matches!(schedule(), Err(ScheduleError::DuplicateId { id: known, .. }) if known == id));
                let page = recorder.handle().render();
                let rejected = page.lines().find(|line| line.contains("reason=\"duplicate_id\""));
                rejected.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            };
            assert_eq!([refused(), refused()], [Some(1), Some(2)]);
            assert!(timers.cancel(id).is_cancelled());
            assert!(schedule().is_ok(), "an ended timer does not count");
        });
    }
}
