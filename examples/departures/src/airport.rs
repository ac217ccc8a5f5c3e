//! An airport: schedules the messages of its flights, and handles them.

use std::sync::Arc;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerId};
use jiff::Timestamp;

use crate::clock::ReplayClock;
use crate::flight::{BOARDING, CANCELLATION_KNOWN, DELAY_KNOWN, Flight, Outcome};
use crate::log::{Entry, Event, Log};
use crate::progress::Progress;

/// Schedules the messages of the month.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Open;

/// Ends the month and returns the log.
#[derive(Message)]
#[rtype(result = "Log")]
pub(crate) struct Close;

/// The call for passengers to board.
#[derive(Message)]
#[rtype(result = "()")]
struct BoardingCall {
    flight: usize,
}

/// The news that a flight will not depart.
#[derive(Message)]
#[rtype(result = "()")]
struct Cancellation {
    flight: usize,
}

/// The news that a flight will depart later than scheduled.
#[derive(Message)]
#[rtype(result = "()")]
struct Delay {
    flight: usize,
    departs: Timestamp,
}

pub(crate) struct Airport {
    flights: Arc<[Flight]>,
    /// The timer of each flight's boarding call.
    calls: Vec<TimerId>,
    log: Log,
    clock: ReplayClock,
    progress: Arc<Progress>,
}

impl Airport {
    pub(crate) fn new(flights: Arc<[Flight]>, clock: ReplayClock, progress: Arc<Progress>) -> Self {
        Self { flights, calls: Vec::new(), log: Log::new(), clock, progress }
    }

    /// Schedules the boarding call of a flight, and the news of its delay or cancellation.
    fn plan(&mut self, flight: usize, facts: &Flight, ctx: &mut Context<Self>) {
        let scheduled = facts.scheduled;
        self.calls.push(ctx.schedule_at(scheduled - BOARDING, BoardingCall { flight }));
        if facts.outcome == Outcome::Cancelled {
            ctx.schedule_at(scheduled - CANCELLATION_KNOWN, Cancellation { flight });
        } else if let Some(departs) = facts.late_departure() {
            ctx.schedule_at(scheduled - DELAY_KNOWN, Delay { flight, departs });
        }
    }

    fn note(&mut self, flight: usize, event: Event) {
        let at = self.clock.date();
        self.progress.happened(event, at);
        self.log.push(Entry { at, flight: self.flights[flight].line, attempt: 1, event });
    }
}

impl Actor for Airport {
    type Context = Context<Self>;
}

impl Handler<Open> for Airport {
    type Result = ();

    fn handle(&mut self, _: Open, ctx: &mut Self::Context) {
        for (flight, facts) in Arc::clone(&self.flights).iter().enumerate() {
            self.plan(flight, facts, ctx);
        }
    }
}

impl Handler<BoardingCall> for Airport {
    type Result = ();

    fn handle(&mut self, BoardingCall { flight }: BoardingCall, _: &mut Self::Context) {
        self.note(flight, Event::Called);
    }
}

impl Handler<Cancellation> for Airport {
    type Result = ();

    fn handle(&mut self, Cancellation { flight }: Cancellation, ctx: &mut Self::Context) {
        let outcome = ctx.cancel_timer(self.calls[flight]);
        self.note(flight, Event::Cancelled(outcome));
    }
}

impl Handler<Delay> for Airport {
    type Result = ();

    fn handle(&mut self, Delay { flight, departs }: Delay, ctx: &mut Self::Context) {
        // At a high speed the news may come after the new time.
        let call = (departs - BOARDING).max(self.clock.date());
        let outcome = ctx.reschedule_timer_at(self.calls[flight], call);
        self.note(flight, Event::Rescheduled(outcome));
    }
}

impl Handler<Close> for Airport {
    type Result = MessageResult<Close>;

    fn handle(&mut self, _: Close, _: &mut Self::Context) -> Self::Result {
        MessageResult(std::mem::take(&mut self.log))
    }
}
