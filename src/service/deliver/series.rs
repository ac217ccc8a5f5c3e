//! The producer of the messages of a repeating timer, as it is stored.

use std::time::{Duration, SystemTime};

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, NextRun, Outcome, Recurrence, Repeated};
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Deferred, Destination, Job, Via};
use crate::service::deliver::message_ref::{BoxedContents, BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::calendar::Calendar;
use crate::service::schedule::deadline::since_epoch;
use crate::service::schedule::repeating::Clocks;
use crate::service::state::{Service, State};

const PANICKED: DeadLetterReason = DeadLetterReason::SourcePanicked;

/// A producer and the destination of its messages.
pub(crate) struct Series<M: TimerMessage, D> {
    pub(crate) to: D,
    /// Absent while a message is produced.
    pub(crate) producer: Option<Producer<M>>,
}

/// Produces the messages of a timer, and its wall-clock times if it follows a calendar.
pub(crate) struct Producer<M: TimerMessage> {
    pub(crate) source: MessageSource<M>,
    /// Boxed, since it is large, and few timers follow one.
    pub(crate) calendar: Option<Box<Calendar>>,
}

/// A due repetition.
pub(crate) struct Taken<M: TimerMessage> {
    recurrence: Recurrence,
    producer: Producer<M>,
    target: Option<Target<M>>,
}

/// A repetition after the production of its message.
pub(crate) struct Produced<M: TimerMessage> {
    /// The clocks that determine the next repetition.
    clocks: Clocks,
    producer: Producer<M>,
    target: Option<Target<M>>,
    /// The message, or the outcome of the timer.
    result: Result<WithNext<M>, Outcome>,
}

/// A produced message, and the run after it.
struct WithNext<M> {
    message: M,
    next: NextRun,
    now: ClockReading,
}

impl<M: TimerMessage> Producer<M> {
    fn next(&mut self) -> M {
        self.source.next_message()
    }

    fn after_this(&mut self, recurrence: &Recurrence, now: ClockReading, via: Via) -> NextRun {
        let Some(calendar) = &mut self.calendar else {
            return recurrence.after_this(now, via == Via::Handler);
        };
        let wall = now.wall.unwrap_or_default();
        let [due, wall] =
            [recurrence.wall().unwrap_or(wall), wall].map(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        let at = due.zip(wall).and_then(|(due, wall)| calendar.next(due, wall)).map(since_epoch);
        match at.map_or(NextRun::Never, |at| recurrence.on_wall_clock(at, now)) {
            // A past time is due in the next tick: past times without end must not stop virtual time.
            NextRun::At { due, wall } => {
                NextRun::At { due: due.max(now.time.saturating_add(Duration::from_nanos(1))), wall }
            }
            never => never,
        }
    }
}

impl<M, D> Job for Series<M, D>
where
    M: TimerMessage,
    D: Destination<M>,
{
    type Message = M;
    type To = D;
    type Messages = MessageSource<M>;
    type Taken = Taken<M>;
    type Produced = Produced<M>;
    type Producer = Producer<M>;
    type Rest = Self;

    const PRODUCES: bool = true;

    fn new(to: D, source: MessageSource<M>, calendar: Option<Box<Calendar>>) -> Self {
        Self { to, producer: Some(Producer { source, calendar }) }
    }

    fn to(&self) -> &D {
        &self.to
    }

    fn to_mut(&mut self) -> &mut D {
        &mut self.to
    }

    fn take(state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<M>> {
        let recurrence = state.engine.recurrence(due.key)?.clone();
        let series = state.stores.stored_mut::<Self>(due.payload)?;
        let target = series.to.target().cloned();
        series.producer.take().map(|producer| Taken { recurrence, producer, target })
    }

    fn target_of(taken: &Taken<M>) -> Option<&Target<M>> {
        taken.target.as_ref()
    }

    fn produce(taken: Taken<M>, service: &Service, via: Via) -> Produced<M> {
        let Taken { recurrence, mut producer, target } = taken;
        let clocks = Clocks::of(&recurrence);
        let result = service.contain(|| {
            let now = service.read(clocks);
            if recurrence.is_over(now) {
                return Err(Outcome::Cancelled);
            }
            let message = producer.next();
            Ok(WithNext { message, next: producer.after_this(&recurrence, now, via), now })
        });
        let result = result.unwrap_or(Err(Outcome::DeadLettered(PANICKED)));
        Produced { clocks, producer, target, result }
    }

    fn give_up(taken: Taken<M>, outcome: Outcome) -> Produced<M> {
        let Taken { recurrence, producer, target } = taken;
        Produced { clocks: Clocks::of(&recurrence), producer, target, result: Err(outcome) }
    }

    /// Sets the next repetition, unless the timer was cancelled meanwhile.
    fn commit(
        produced: Produced<M>,
        state: &mut State,
        ticket: Ticket,
        _: Via,
        wakeup: &mut Wakeup,
    ) -> Committed<Self> {
        let Produced { clocks, producer, target, result } = produced;
        let due = ticket.due;
        let mut deferred = Deferred { producer: Some(producer), target, ..Deferred::NONE };
        let WithNext { message, next, now } = match result {
            Ok(ready) => ready,
            Err(outcome) => {
                end(state, ticket, outcome, &mut deferred);
                return Committed { message: None, resume: None, deferred };
            }
        };
        let repeated = state.engine.repeat(due.key, next, now);
        match repeated {
            Repeated::Gone => {
                deferred.message = Some(message);
                return Committed { message: None, resume: None, deferred };
            }
            Repeated::Last(payload) => deferred.rest = state.stores.take(payload),
            Repeated::Between => return_producer(state, due.payload, &mut deferred),
            Repeated::Armed(deadline) => {
                return_producer(state, due.payload, &mut deferred);
                state.expect_repetition(deadline, wakeup);
            }
        }
        let resume = (repeated == Repeated::Between).then_some(clocks);
        Committed { message: Some(message), resume, deferred }
    }

    fn send_off(produced: Produced<M>, state: &mut State, ticket: Ticket) -> (Option<M>, Deferred<Self>) {
        let Produced { producer, target, result, .. } = produced;
        let due = ticket.due;
        let mut deferred = Deferred { producer: Some(producer), target, ..Deferred::NONE };
        match result {
            Ok(ready) if state.engine.payload(due.key) == Some(due.payload) => {
                state.engine.plan(due.key, ready.next);
                return_producer(state, due.payload, &mut deferred);
                return (Some(ready.message), deferred);
            }
            Ok(ready) => deferred.message = Some(ready.message),
            Err(outcome) => end(state, ticket, outcome, &mut deferred),
        }
        (None, deferred)
    }

    /// Takes the next message of the series.
    fn take_boxed(self) -> Option<BoxedMessage> {
        let Self { to, producer } = self;
        let Producer { mut source, calendar } = producer?;
        let source = Box::new(move || Box::new(source.next_message()) as _);
        Some(BoxedMessage { contents: BoxedContents::Source(source), rest: Box::new((to, calendar)) })
    }
}

/// Puts a producer back into its series.
fn return_producer<M, D>(state: &mut State, payload: MessageRef, deferred: &mut Deferred<Series<M, D>>)
where
    M: TimerMessage,
    D: Destination<M>,
{
    if let Some(series) = state.stores.stored_mut::<Series<M, D>>(payload) {
        series.producer = deferred.producer.take();
    }
}

/// Ends a timer without a message, unless it was cancelled meanwhile.
fn end<M, D>(state: &mut State, ticket: Ticket, outcome: Outcome, deferred: &mut Deferred<Series<M, D>>)
where
    M: TimerMessage,
    D: Destination<M>,
{
    let Some(payload) = state.engine.finish(ticket.due.key, outcome) else { return };
    deferred.rest = state.stores.take(payload);
    if let Outcome::DeadLettered(reason) = outcome {
        deferred.lose(ticket, reason, None);
    }
}
