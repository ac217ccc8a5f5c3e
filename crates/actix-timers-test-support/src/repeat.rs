//! Repeating timers, scheduled in each of the possible ways.

use actix::prelude::*;
use actix_timers::{
    MessageSource, Repeat, RepeatTimes, ScheduleAtFixedRate, ScheduleError, ScheduleWithFixedDelay, TimerContext,
    TimerId, TimerOptions,
};

use crate::{Log, Name, Note, Probe, Way, World, run};

pub type Rejected<N> = ScheduleError<MessageSource<Note<N>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Rate,
    Delay,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Rate, Self::Delay];
}

impl World {
    /// Schedules a repeating note in one of the three ways.
    pub async fn repeat<N: Name>(
        &self,
        way: Way,
        kind: Kind,
        addr: &Addr<Probe<N>>,
        repeat: impl Into<Repeat>,
        messages: impl Into<MessageSource<Note<N>>>,
    ) -> Result<TimerId, Rejected<N>> {
        let repeat = repeat.into();
        match (way, kind) {
            (_, Kind::Rate) => self.repeat_at(way, addr, repeat, messages).await,
            (Way::Message, Kind::Delay) => {
                self.timers.addr().send(ScheduleWithFixedDelay::new(addr, repeat, messages)).await.unwrap()
            }
            (_, Kind::Delay) => self.repeat_at(way, addr, repeat.with_fixed_delay(), messages).await,
        }
    }

    /// Schedules a note at any times in one of the three ways.
    pub async fn repeat_at<N: Name>(
        &self,
        way: Way,
        addr: &Addr<Probe<N>>,
        times: impl Into<RepeatTimes>,
        messages: impl Into<MessageSource<Note<N>>>,
    ) -> Result<TimerId, Rejected<N>> {
        let (times, messages) = (times.into(), messages.into());
        let options = TimerOptions::new();
        match way {
            Way::Direct => self.timers.timer(addr, options).try_repeat(times, messages),
            Way::Message => self.timers.addr().send(ScheduleAtFixedRate::new(addr, times, messages)).await.unwrap(),
            Way::Context => run(addr, move |_, ctx| ctx.timer(options).try_repeat(times, messages)).await,
        }
    }
}

/// Returns the times at which notes have arrived since the last call.
pub fn times<N: Name>(log: &Log<N>) -> Vec<u64> {
    log.take().into_iter().map(|(_, at)| at).collect()
}
