//! An airport with durable timers: handles each message, and logs it before it completes.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use actix_timers_durable::{DueTime, Durable, DurableError, DurableTimers, HandlerError};
use jiff::Timestamp;

use super::clock::StepClock;
use super::logbook::Journal;
use super::messages::{BoardingCall, Cancellation, Delay};
use crate::flight::{BOARDING, Flight};
use crate::log::{Entry, Event};
use crate::progress::Progress;

pub(super) struct Airport {
    pub(super) flights: Arc<[Flight]>,
    pub(super) timers: DurableTimers,
    pub(super) clock: StepClock,
    pub(super) logbook: Rc<dyn Journal>,
    pub(super) progress: Arc<Progress>,
}

impl Airport {
    /// Opens the airport's routes: its messages are delivered from now on.
    pub(super) fn open(self, name: &str) -> Result<(), DurableError> {
        let timers = self.timers.clone();
        let airport = self.start();
        timers.connect::<BoardingCall>(name, airport.clone())?;
        timers.connect::<Cancellation>(name, airport.clone())?;
        timers.connect::<Delay>(name, airport)
    }

    /// Logs the handling of a message.
    fn note(&self, flight: usize, event: Event, due: DueTime, attempt: u32) -> Noted {
        let unknown = move || HandlerError::permanent(format!("there is no flight {flight} here"));
        let line = self.flights.get(flight).map(|flight| flight.line).ok_or_else(unknown);
        // The clock of another node may be ahead.
        let at = self.clock.date_of(due).map(|due| due.max(self.clock.date()));
        let (logbook, progress) = (Rc::clone(&self.logbook), Arc::clone(&self.progress));
        Box::pin(async move {
            let at = at.map_err(io::Error::other)?;
            logbook.write(Entry { at, flight: line?, attempt, event }).await?;
            progress.happened(event, at);
            Ok(())
        })
    }
}

type Noted = ResponseFuture<Result<(), HandlerError>>;

impl Actor for Airport {
    type Context = Context<Self>;
}

impl Handler<Durable<BoardingCall>> for Airport {
    type Result = Noted;

    fn handle(&mut self, call: Durable<BoardingCall>, _: &mut Self::Context) -> Self::Result {
        self.note(call.flight, Event::Called, call.due, call.attempt)
    }
}

impl Handler<Durable<Cancellation>> for Airport {
    type Result = ResponseActFuture<Self, Result<(), HandlerError>>;

    fn handle(&mut self, news: Durable<Cancellation>, _: &mut Self::Context) -> Self::Result {
        let (timers, call) = (self.timers.clone(), news.call);
        let cancelled = async move { timers.cancel(call).await }.into_actor(self);
        Box::pin(cancelled.then(move |outcome, airport, _| {
            let noted =
                outcome.map(|outcome| airport.note(news.flight, Event::Cancelled(outcome), news.due, news.attempt));
            async move { noted?.await }.into_actor(airport)
        }))
    }
}

impl Handler<Durable<Delay>> for Airport {
    type Result = ResponseActFuture<Self, Result<(), HandlerError>>;

    fn handle(&mut self, news: Durable<Delay>, _: &mut Self::Context) -> Self::Result {
        let (timers, clock, call, departs) = (self.timers.clone(), self.clock.clone(), news.call, news.departs);
        let rescheduled = async move {
            let departs = Timestamp::try_from(departs).map_err(io::Error::other)?;
            Ok::<_, HandlerError>(timers.reschedule_at(call, clock.due_at(departs - BOARDING)).await?)
        };
        Box::pin(rescheduled.into_actor(self).then(move |outcome, airport, _| {
            let noted =
                outcome.map(|outcome| airport.note(news.flight, Event::Rescheduled(outcome), news.due, news.attempt));
            async move { noted?.await }.into_actor(airport)
        }))
    }
}
