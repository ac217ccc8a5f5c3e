//! What may be asked of a service: schedule, cancel, move, look.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, Message};

use super::admission::{Admission, News, Rejected, Rejection};
use super::carried::{Boxed, Carried, is_large};
use super::description::COUNTED_ALONE;
use super::dispatch::Lined;
use super::lanes::{Guard, Lanes, Parcel, Payload};
use super::moment::When;
use super::options::Whose;
use super::{Core, Service};
use crate::actor::error::{CancelOutcome, RescheduleOutcome, ScheduleError};
use crate::actor::id::TimerId;
use crate::actor::options::TimerOptions;
use crate::actor::target::Target;
use crate::actor::view::{Inspection, TimerInfo};
use crate::engine::{Ending, Next, NotPending, OwnerId, Refusal};
use crate::timing::Key;

/// Timers of a batch taken in while the lock is held: some microseconds' worth.
const ADMITTED_AT_ONCE: usize = 64;

/// The answer with the message itself, should that come back.
#[inline(always)]
pub(super) fn unpacked<C: Carried>(
    answer: Result<TimerId, ScheduleError<C>>,
) -> Result<TimerId, ScheduleError<C::Message>> {
    match answer {
        Ok(id) => Ok(id),
        Err(refused) => Err(refused.map(C::unpack)),
    }
}

impl Service {
    /// Schedules a message of an actor to itself.
    pub(crate) fn schedule_own<A, M>(&self, when: When, owner: OwnerId, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if const { is_large::<M>() } {
            let lane = Lanes::of_context::<A, Boxed<M>>;
            return unpacked(self.place(when, Some(owner), None, lane, Boxed::pack(message)));
        }
        self.place(when, Some(owner), None, Lanes::of_context::<A, M>, message)
    }

    /// Schedules a message to a recipient; under an id of the caller's, if one is given.
    pub(crate) fn schedule_for<M>(
        &self,
        when: When,
        id: Option<TimerId>,
        target: Target<M>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if const { is_large::<M>() } {
            return unpacked(self.place_for(when, id, target, Boxed::pack(message)));
        }
        self.place_for(when, id, target, message)
    }

    #[inline(always)]
    pub(crate) fn place_for<C: Carried>(
        &self,
        when: When,
        id: Option<TimerId>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        if target.is_lined(self.settings.mailbox_policy) {
            return self.place_in_line(when, id, target, message);
        }
        self.place(when, None, id, Lanes::of_recipients::<C>, Parcel { target, message })
            .map_err(|refused| refused.map(|parcel| parcel.message))
    }

    /// Schedules so many of the messages that come next, in their order, with few looks at the clock and few locks.
    pub(crate) fn schedule_some<C: Carried>(
        &self,
        mut most: usize,
        entries: &mut impl Iterator<Item = (When, Option<Arc<TimerOptions>>, Target<C::Message>, C)>,
        answers: &mut Vec<Result<TimerId, ScheduleError<C::Message>>>,
    ) {
        loop {
            // How long each has waited is measured first. The other way round it would have waited longer than until now,
            // and be due too early.
            let part: Vec<_> = entries.by_ref().take(most.min(ADMITTED_AT_ONCE)).collect();
            if part.is_empty() {
                return;
            }
            most -= part.len();
            let now = self.clock.now();
            let part: Vec<_> = part
                .into_iter()
                .map(|(when, options, target, message)| {
                    let moment = match &options {
                        Some(options) => self.moment_with(now, when, options),
                        None => self.moment_at(now, when),
                    };
                    (moment, options, Parcel { target, message })
                })
                .collect();
            let mut news = News::default();
            let mut replaced = Vec::new();
            let mut core = self.core();
            let lane = Lanes::of_recipients::<C>(&mut core.lanes);
            let admitted: Vec<(Duration, Admission<Parcel<C>>)> = part
                .into_iter()
                .map(|(moment, options, parcel)| {
                    let admitted = if parcel.target.is_lined(self.settings.mailbox_policy) {
                        core.admit_lined(&moment, options.as_deref(), parcel, &mut news, &mut replaced)
                    } else if let Some(options) = options {
                        let whose = Whose::recipient(&parcel.target);
                        core.admit_with(&moment, whose, &options, None, lane, parcel, &mut news, &mut replaced)
                    } else {
                        core.admit(&moment, None, None, lane, parcel, &mut news)
                    };
                    (moment.delay, admitted)
                })
                .collect();
            self.discard_all(core, replaced);
            self.tell(news);
            answers.extend(admitted.into_iter().map(|(delay, admitted)| {
                unpacked(self.answer(delay, None, admitted).map_err(|refused| refused.map(|parcel| parcel.message)))
            }));
        }
    }

    /// Schedules a message that may have to wait in a line when it is due.
    #[inline(never)]
    fn place_in_line<C: Carried>(
        &self,
        when: When,
        id: Option<TimerId>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        self.place(when, None, id, Lanes::of_lines::<C>, Lined { target, message, posting: None })
            .map_err(|refused| refused.map(|lined| lined.message))
    }

    fn place<S: Send + 'static>(
        &self,
        when: When,
        owner: Option<OwnerId>,
        id: Option<TimerId>,
        lane: fn(&mut Lanes) -> u32,
        stored: S,
    ) -> Result<TimerId, ScheduleError<S>> {
        let moment = self.moment_at(self.clock.now(), when);
        let mut news = News::default();
        let mut core = self.core();
        let lane = lane(&mut core.lanes);
        let admitted = core.admit(&moment, owner, id, lane, stored, &mut news);
        drop(core);
        self.tell(news);
        self.answer(moment.delay, id, admitted)
    }

    /// Tells the driver, and the watch, what they have to know.
    pub(super) fn tell(&self, news: News) {
        if let Some(first) = news.first {
            self.expect(first);
        }
        if news.look {
            self.driver.wake();
        }
    }

    pub(super) fn answer<S>(
        &self,
        delay: Duration,
        id: Option<TimerId>,
        admitted: Admission<S>,
    ) -> Result<TimerId, ScheduleError<S>> {
        let Rejected { reason, stored: message } = match admitted {
            Ok(key) => {
                self.meters.schedule_delay.record(delay.as_secs_f64());
                let id = id.unwrap_or_else(|| self.ids.id_of(key));
                self.begin_trail(key, id, delay);
                return Ok(id);
            }
            Err(rejected) => rejected,
        };
        Err(match reason {
            Rejection::Duplicate(id) => {
                self.meters.refused_duplicate.increment(1);
                ScheduleError::DuplicateId { id, message }
            }
            Rejection::Refused(Refusal::Capacity) => {
                ScheduleError::CapacityReached { capacity: self.settings.engine.capacity, message }
            }
            Rejection::Refused(Refusal::Closed | Refusal::OwnerEnded) => ScheduleError::Stopped { message },
        })
    }

    /// Cancels a timer of this service.
    pub(crate) fn cancel(&self, id: TimerId) -> CancelOutcome {
        let mut core = self.core();
        let payload = match self.find(&core, id).and_then(|key| core.engine.cancel(key)) {
            Ok(payload) => payload,
            Err(reason) => return reason.into(),
        };
        self.let_go(core, payload)
    }

    /// Cancels a timer, and drops its message after unlocking.
    pub(super) fn stop(&self, mut core: Guard<'_>, key: Key) -> CancelOutcome {
        match core.engine.cancel(key) {
            Ok(payload) => self.let_go(core, payload),
            Err(reason) => reason.into(),
        }
    }

    /// Drops the message of a timer that was cancelled just now, after unlocking.
    #[inline(always)]
    fn let_go(&self, mut core: Guard<'_>, payload: Payload) -> CancelOutcome {
        let look = core.published.ask_to_publish();
        self.discard(core, payload);
        if look {
            self.driver.wake();
        }
        CancelOutcome::Cancelled
    }

    /// Drops a message of a timer that has ended, after unlocking.
    #[inline(always)]
    pub(super) fn discard(&self, core: Guard<'_>, payload: Payload) {
        match core.lanes.lane(payload.lane).map(|lane| lane.discard) {
            Some(discard) => drop(self.contain(|| discard(self, core, payload))),
            None => drop(core),
        }
    }

    /// Moves a timer of this service.
    pub(crate) fn reschedule(&self, id: TimerId, when: When) -> RescheduleOutcome {
        let now = self.clock.now();
        let wanted = self.wanted(now, when);
        let moment = self.moment_of(now, &wanted);
        let mut core = self.core();
        let key = match self.find(&core, id) {
            Ok(key) => key,
            Err(reason) => return reason.into(),
        };
        let was_posted = core.engine.is_posted(key);
        if let Err(reason) = core.engine.reschedule(moment.now, key, moment.deadline) {
            // One that repeats comes at this time once more, after the message that is on its way.
            core.engine.ask_next(key, Next::At { due: moment.due, wall: moment.wall });
            return reason.into();
        }
        core.engine.set_due(key, wanted.time, wanted.before_origin);
        let makes_room = was_posted && core.recall(key);
        if let Some(wall) = moment.wall {
            core.engine.set_wall_time(key, wall);
        }
        let first = core.is_first(moment.deadline);
        let look = core.published.ask_to_publish() || first || (moment.wall.is_some() && core.wall_offset.is_none());
        drop(core);
        if first {
            self.expect(moment.deadline);
        }
        if makes_room {
            self.ask_to_pump();
        }
        if look {
            self.driver.wake();
        }
        RescheduleOutcome::Rescheduled
    }

    /// What is known of a pending timer.
    pub(crate) fn get(&self, id: TimerId) -> Option<TimerInfo> {
        let now = self.clock.now();
        let core = self.core();
        let key = self.find(&core, id).ok()?;
        self.info(&core, key, now, COUNTED_ALONE)
    }

    pub(crate) fn inspect(&self) -> Inspection {
        let now = self.clock.now();
        let core = self.core();
        Inspection::new(&self.name, self.tick, now, &core.engine)
    }

    /// Whether a timer here has this id, which does not say where its timer is.
    pub(crate) fn has_named(&self, id: TimerId) -> bool {
        self.core().engine.named(id.as_uuid().as_u128()).is_some()
    }

    /// The live key behind an id.
    pub(super) fn find(&self, core: &Core, id: TimerId) -> Result<Key, NotPending> {
        if id.actor_number().is_none() {
            return core.engine.named(id.as_uuid().as_u128()).ok_or(NotPending::Unknown);
        }
        if id.actor_number() != Some(self.number) {
            return Err(NotPending::Unknown);
        }
        let (generation, live) = core.engine.slot(id.slot()).ok_or(NotPending::Unknown)?;
        if let Some(key) = live
            && core.engine.name_of(key).is_none()
            && self.ids.is_id_of(id, key)
        {
            return Ok(key);
        }
        let last = generation.checked_sub(1).map(|generation| Key::new(id.slot(), generation));
        match last.filter(|last| self.ids.is_id_of(id, *last)).and_then(|last| core.engine.ending(last)) {
            Some(Ending::Delivered) => Err(NotPending::Delivered),
            _ => Err(NotPending::Unknown),
        }
    }

    pub(crate) fn id_of(&self, core: &Core, key: Key) -> TimerId {
        let named = core.engine.name_of(key).and_then(|name| TimerId::from_uuid(uuid::Uuid::from_u128(name)).ok());
        named.unwrap_or_else(|| self.ids.id_of(key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use actix::prelude::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::When;
    use crate::actor::{ScheduleError, Target, TimerActor, TimerId};

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

    /// Requests make ids of their own, so this cannot be done from outside.
    #[test]
    fn an_id_that_a_pending_timer_has_is_refused_and_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        System::new().block_on(async {
            let timers = metrics::with_local_recorder(&recorder, || TimerActor::builder().start()).unwrap();
            let bell = Bell.start();
            let id = TimerId::fresh();
            let schedule = || {
                let hour = When::after(Duration::from_secs(3600));
                timers.service().schedule_for(hour, Some(id), Target::from(&bell), Ring)
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
            assert!(schedule().is_ok(), "one that has ended does not count");
        });
    }
}
