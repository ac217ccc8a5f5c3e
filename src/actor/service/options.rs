//! Scheduling with options. Kept apart from `requests`, so that who wants none does not pay for them.

use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, Message};

use super::Service;
use super::lanes::{Lanes, Parcel};
use super::requests::{Moment, When};
use crate::actor::error::ScheduleError;
use crate::actor::id::TimerId;
use crate::actor::options::TimerOptions;
use crate::actor::target::Target;
use crate::engine::OwnerId;
use crate::timing::{coalesce, jitter};

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
        let moment = self.moment_with(self.clock.now(), when, options);
        self.place_at(moment, Some(owner), None, Lanes::of_context::<A, M>, message)
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
        let moment = self.moment_with(self.clock.now(), when, options);
        self.place_at(moment, None, id, Lanes::of_recipients::<M>, Parcel { target, message })
            .map_err(|refused| refused.map(|parcel| parcel.message))
    }

    /// The deadline in ticks, after jitter and slack.
    pub(super) fn moment_with(&self, now: Duration, when: When, options: &TimerOptions) -> Moment {
        let mut wanted = self.wanted(now, when);
        if !options.jitter.is_zero() {
            let later = jitter(options.jitter, self.random.next());
            wanted.time = wanted.time.saturating_add(later);
            wanted.wall = wanted.wall.map(|wall| wall.saturating_add(later));
        }
        let mut moment = self.moment_of(now, &wanted);
        if !options.slack.is_zero() {
            let last = self.tick.round_down(wanted.time.saturating_add(options.slack));
            moment.deadline = coalesce(moment.deadline, last);
        }
        moment
    }
}
