//! Scheduling with options. Kept apart from `requests`, so that who wants none does not pay for them.

use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, Message};

use super::admission::{Admission, News};
use super::carried::{Boxed, Carried, is_large};
use super::dispatch::Lined;
use super::lanes::{Guard, Lanes, Parcel, Payload};
use super::moment::{Moment, When};
use super::requests::unpacked;
use super::{Core, Service};
use crate::actor::error::ScheduleError;
use crate::actor::id::TimerId;
use crate::actor::options::TimerOptions;
use crate::actor::target::Target;
use crate::engine::{KeyScope, OwnerId};
use crate::timing::{coalesce, jitter};

/// Who a timer with options belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose {
    owner: Option<OwnerId>,
    /// Among which timers its key is unique; nothing if its target had gone before it was named.
    scope: Option<KeyScope>,
}

impl Whose {
    pub(super) const fn own(owner: OwnerId) -> Self {
        Self { owner: Some(owner), scope: Some(KeyScope::Owner(owner)) }
    }

    pub(super) fn recipient<M>(target: &Target<M>) -> Self
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let mailbox = target.mailbox();
        Self { owner: None, scope: (mailbox != 0).then_some(KeyScope::Recipient(mailbox)) }
    }
}

impl Core {
    /// Takes a timer in with its message and its labels, in the place of the one that had its key, whose message is to be
    /// dropped after unlocking. All at once: nobody sees both, or neither.
    #[expect(clippy::too_many_arguments, reason = "they are those of `admit`, and what comes of the key")]
    pub(super) fn admit_with<S: Send + 'static>(
        &mut self,
        moment: &Moment,
        Whose { owner, scope }: Whose,
        options: &TimerOptions,
        id: Option<TimerId>,
        lane: u32,
        stored: S,
        news: &mut News,
        replaced: &mut Vec<Payload>,
    ) -> Admission<S> {
        let key = scope.zip(options.key.clone());
        let old = key.as_ref().and_then(|(scope, key)| self.engine.keyed(*scope, key));
        let timer = self.admit_by(moment, id, lane, stored, news, |engine, payload| match old {
            Some(old) => engine.schedule_in_place_of(old, moment.now, moment.deadline, owner, payload),
            None => engine.schedule(moment.now, moment.deadline, owner, payload),
        })?;
        // What is on its way already goes on without the key.
        let payload = old.and_then(|old| self.engine.cancel(old).ok());
        replaced.extend(payload);
        self.engine.label(timer, key, options.group.clone());
        Ok(timer)
    }
}

impl Service {
    /// Schedules a message of an actor to itself.
    pub(crate) fn schedule_own_with<A, M>(
        &self,
        when: When,
        owner: OwnerId,
        options: &TimerOptions,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let whose = Whose::own(owner);
        if const { is_large::<M>() } {
            let lane = Lanes::of_context::<A, Boxed<M>>;
            return unpacked(self.place_with(when, whose, options, None, lane, Boxed::pack(message)));
        }
        self.place_with(when, whose, options, None, Lanes::of_context::<A, M>, message)
    }

    /// Schedules a message to a recipient; under an id of the caller's, if one is given.
    pub(crate) fn schedule_for_with<M>(
        &self,
        when: When,
        id: Option<TimerId>,
        options: &TimerOptions,
        target: Target<M>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if const { is_large::<M>() } {
            return unpacked(self.place_for_with(when, id, options, target, Boxed::pack(message)));
        }
        self.place_for_with(when, id, options, target, message)
    }

    #[inline(always)]
    pub(crate) fn place_for_with<C: Carried>(
        &self,
        when: When,
        id: Option<TimerId>,
        options: &TimerOptions,
        target: Target<C::Message>,
        message: C,
    ) -> Result<TimerId, ScheduleError<C>> {
        let whose = Whose::recipient(&target);
        if target.is_lined(self.settings.mailbox_policy) {
            let lined = Lined { target, message, posting: None };
            return self
                .place_with(when, whose, options, id, Lanes::of_lines::<C>, lined)
                .map_err(|refused| refused.map(|lined| lined.message));
        }
        self.place_with(when, whose, options, id, Lanes::of_recipients::<C>, Parcel { target, message })
            .map_err(|refused| refused.map(|parcel| parcel.message))
    }

    fn place_with<S: Send + 'static>(
        &self,
        when: When,
        whose: Whose,
        options: &TimerOptions,
        id: Option<TimerId>,
        lane: fn(&mut Lanes) -> u32,
        stored: S,
    ) -> Result<TimerId, ScheduleError<S>> {
        let moment = self.moment_with(self.clock.now(), when, options);
        let mut news = News::default();
        let mut replaced = Vec::new();
        let mut core = self.core();
        let lane = lane(&mut core.lanes);
        let admitted = core.admit_with(&moment, whose, options, id, lane, stored, &mut news, &mut replaced);
        self.discard_all(core, replaced);
        self.tell(news);
        self.answer(moment.delay, id, admitted)
    }

    /// Gives up the lock and drops messages of timers that have ended; the first, which mostly is the only one, in the same
    /// step in which its timer has ended.
    pub(super) fn discard_all<'a>(&'a self, core: Guard<'a>, messages: Vec<Payload>) {
        let mut core = Some(core);
        for payload in messages {
            self.discard(core.take().unwrap_or_else(|| self.core()), payload);
        }
    }

    /// The deadline in ticks, after jitter and slack.
    pub(super) fn moment_with(&self, now: Duration, when: When, options: &TimerOptions) -> Moment {
        let mut wanted = self.wanted(now, when);
        if !options.jitter.is_zero() {
            let later = jitter(options.jitter, self.random.next());
            wanted.put_off(later);
            wanted.wall = wanted.wall.map(|wall| wall.saturating_add(later));
        }
        let mut moment = self.moment_of(now, &wanted);
        if !options.slack.is_zero() {
            let slack = options.slack.saturating_sub(wanted.before_origin);
            let last = self.tick.round_down(wanted.time.saturating_add(slack));
            moment.deadline = coalesce(moment.deadline, last);
        }
        moment
    }
}
