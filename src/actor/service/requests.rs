//! What may be asked of a service: schedule, cancel, move, look.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, Message};

use super::admission::{Admission, Admitted, NewTimer, News, Rejected, Rejection, Whose};
use super::carried::{Boxed, Carried, is_large};
use super::description::COUNTED_ALONE;
use super::job::{Destination, Job, Own, Queued};
use super::lanes::{Guard, Lanes, Payload};
use super::moment::When;
use super::once::Once;
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
    #[inline(always)]
    pub(crate) fn schedule_own<A, M>(
        &self,
        when: When,
        owner: OwnerId,
        options: Option<&TimerOptions>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if const { is_large::<M>() } {
            return unpacked(self.place_own::<A, _>(when, owner, options, Boxed::pack(message)));
        }
        self.place_own::<A, _>(when, owner, options, message)
    }

    #[inline(always)]
    fn place_own<A, C>(
        &self,
        when: When,
        owner: OwnerId,
        options: Option<&TimerOptions>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>>
    where
        A: Actor + Handler<C::Message>,
        A::Context: ToEnvelope<A, C::Message>,
        C: Carried,
    {
        let timer = self.once(when, None, options, Whose::own(owner));
        self.place_once(&timer, Lanes::own::<A, Once<C, Own>>, Once { to: Own, message })
    }

    /// Schedules a message to a recipient; under an id of the caller's, if one is given.
    #[inline(always)]
    pub(crate) fn schedule_for<M>(
        &self,
        when: When,
        id: Option<TimerId>,
        options: Option<&TimerOptions>,
        target: Target<M>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if const { is_large::<M>() } {
            return unpacked(self.place_for(when, id, options, target, Boxed::pack(message)));
        }
        self.place_for(when, id, options, target, message)
    }

    #[inline(always)]
    pub(crate) fn place_for<C: Carried>(
        &self,
        when: When,
        id: Option<TimerId>,
        options: Option<&TimerOptions>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        let timer = self.once(when, id, options, Whose::recipient(&target));
        if target.is_lined(self.settings.mailbox_policy) {
            return self.place_in_line(&timer, target, message);
        }
        self.place_once(&timer, Lanes::plain::<Once<C, _>>, Once { to: target, message })
    }

    /// Apart, so that its code is not in the way of the others.
    #[inline(never)]
    fn place_in_line<C: Carried>(
        &self,
        timer: &NewTimer<'_>,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        self.place_once(timer, Lanes::queued::<Once<C, _>>, Once { to: Queued::new(target), message })
    }

    /// A timer that does not repeat, as of now.
    #[inline(always)]
    fn once<'o>(
        &self,
        when: When,
        id: Option<TimerId>,
        options: Option<&'o TimerOptions>,
        whose: Whose,
    ) -> NewTimer<'o> {
        let moment = self.moment_with(self.clock.now(), when, options);
        NewTimer { moment, recurrence: None, whose, id, options }
    }

    #[inline(always)]
    fn place_once<C, D>(
        &self,
        timer: &NewTimer<'_>,
        lane: fn(&mut Lanes) -> u32,
        once: Once<C, D>,
    ) -> Result<TimerId, ScheduleError<C>>
    where
        C: Carried,
        D: Destination<C::Message>,
    {
        self.place(timer, lane, once, (), |_, ()| ()).map_err(|refused| refused.map(|(once, ())| once.message))
    }

    /// Takes a timer in: first `job`, and `rest` into it once it is accepted.
    #[inline(always)]
    pub(super) fn place<J: Job, R>(
        &self,
        timer: &NewTimer<'_>,
        lane: fn(&mut Lanes) -> u32,
        job: J,
        rest: R,
        put_in: impl FnOnce(&mut J, R),
    ) -> Result<TimerId, ScheduleError<(J, R)>> {
        let mut news = News::default();
        let mut core = self.core();
        let lane = lane(&mut core.lanes);
        let mut replaced = None;
        let admitted = match core.admit(timer, lane, job, &mut news) {
            Ok(admitted) => {
                replaced = admitted.replaced;
                if size_of::<R>() > 0
                    && let Some(payload) = core.engine.payload(admitted.key)
                    && let Some(job) = core.lanes.stored_mut(payload)
                {
                    put_in(job, rest);
                }
                Ok(admitted)
            }
            Err(Rejected { reason, job }) => Err(Rejected { reason, job: (job, rest) }),
        };
        match replaced {
            Some(payload) => self.discard(core, payload),
            None => drop(core),
        }
        self.tell(news);
        self.answer(timer.moment.delay, timer.id, admitted)
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
                    let moment = self.moment_with(now, when, options.as_deref());
                    (moment, options, target, message)
                })
                .collect();
            let mut news = News::default();
            let mut replaced = Vec::new();
            let mut core = self.core();
            let plain = core.lanes.plain::<Once<C, Target<C::Message>>>();
            let admitted: Vec<_> = part
                .into_iter()
                .map(|(moment, options, target, message)| {
                    let (delay, whose, options) = (moment.delay, Whose::recipient(&target), options.as_deref());
                    let timer = NewTimer { moment, recurrence: None, whose, id: None, options };
                    let admitted = if target.is_lined(self.settings.mailbox_policy) {
                        let lane = core.lanes.queued::<Once<C, Queued<C::Message>>>();
                        let once = Once { to: Queued::new(target), message };
                        core.admit(&timer, lane, once, &mut news).map_err(Rejected::message)
                    } else {
                        core.admit(&timer, plain, Once { to: target, message }, &mut news).map_err(Rejected::message)
                    };
                    replaced.extend(admitted.as_ref().ok().and_then(|admitted| admitted.replaced));
                    (delay, admitted)
                })
                .collect();
            self.discard_all(core, replaced);
            self.tell(news);
            answers.extend(admitted.into_iter().map(|(delay, admitted)| unpacked(self.answer(delay, None, admitted))));
        }
    }

    /// Gives up the lock and drops messages of timers that have ended; the first, which mostly is the only one, in the same
    /// step in which its timer has ended.
    fn discard_all<'a>(&'a self, core: Guard<'a>, messages: Vec<Payload>) {
        let mut core = Some(core);
        for payload in messages {
            self.discard(core.take().unwrap_or_else(|| self.core()), payload);
        }
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

    #[inline(always)]
    pub(super) fn answer<S>(
        &self,
        delay: Duration,
        id: Option<TimerId>,
        admitted: Admission<S>,
    ) -> Result<TimerId, ScheduleError<S>> {
        let Rejected { reason, job: message } = match admitted {
            Ok(Admitted { key, .. }) => {
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
            assert!(schedule().is_ok(), "one that has ended does not count");
        });
    }
}
