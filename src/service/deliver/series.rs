//! The producer of the messages of a repeating timer, as it is stored.

use std::time::{Duration, SystemTime};

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, NextRun, Outcome, Recurrence, Repeated};
use crate::model::source::MessageSource;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Content, Deferred, Destination, Job, Taken, Via};
use crate::service::deliver::message_ref::{BoxedContents, BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::calendar::Calendar;
use crate::service::schedule::deadline::since_epoch;
use crate::service::schedule::repeating::Clocks;
use crate::service::state::{Service, State};

const PANICKED: DeadLetterReason = DeadLetterReason::SourcePanicked;

/// The producer of a timer's messages; absent while a message is produced.
pub(crate) struct Series<M: TimerMessage>(pub(crate) Option<Producer<M>>);

/// Produces the messages of a timer, and its wall-clock times if it follows a calendar.
pub(crate) struct Producer<M: TimerMessage> {
    pub(crate) source: MessageSource<M>,
    /// Boxed, since it is large, and few timers follow one.
    pub(crate) calendar: Option<Box<Calendar>>,
}

/// A due repetition.
pub(crate) struct Repetition<M: TimerMessage> {
    recurrence: Recurrence,
    producer: Producer<M>,
    /// The message, once it is produced, or the outcome of the timer.
    result: Result<WithNext<M>, Outcome>,
}

/// A produced message, and the run after it.
struct WithNext<M> {
    message: M,
    next: NextRun,
    now: ClockReading,
}

impl<M: TimerMessage> Producer<M> {
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

impl<M: TimerMessage> Content for Series<M> {
    type Message = M;
    type Taken = Repetition<M>;
    type Producer = Producer<M>;

    const PRODUCES: bool = true;

    fn take<D: Destination<M>>(state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>> {
        let recurrence = state.engine.recurrence(due.key)?.clone();
        let Job { to, content: Self(producer) } = state.stores.stored_mut::<Job<Self, D>>(due.payload)?;
        let (producer, target) = (producer.take()?, to.target().cloned());
        Some(Taken { content: Repetition { recurrence, producer, result: Err(Outcome::Cancelled) }, target })
    }

    fn produce(Repetition { recurrence, producer, result }: &mut Repetition<M>, service: &Service, via: Via) {
        let produced = service.contain(|| {
            let now = service.read(Clocks::of(recurrence));
            if recurrence.is_over(now) {
                return Err(Outcome::Cancelled);
            }
            let message = producer.source.next_message();
            Ok(WithNext { message, next: producer.after_this(recurrence, now, via), now })
        });
        *result = produced.unwrap_or(Err(Outcome::DeadLettered(PANICKED)));
    }

    /// Sets the next repetition, unless the timer was cancelled meanwhile.
    fn commit<D: Destination<M>>(
        Taken { content: Repetition { recurrence, producer, result }, target }: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        ticket: Ticket,
        _: Via,
        wakeup: &mut Wakeup,
    ) -> Committed<Self> {
        let due = ticket.due;
        let mut deferred = Deferred { producer: Some(producer), ..Deferred::of(target) };
        let WithNext { message, next, now } = match undelivered.map_or(result, Err) {
            Ok(ready) => ready,
            Err(outcome) => {
                end::<M, D>(state, ticket, outcome, &mut deferred);
                return Committed { message: None, resume: None, deferred };
            }
        };
        let repeated = state.engine.repeat(due.key, next, now);
        match repeated {
            Repeated::Gone => {
                deferred.message = Some(message);
                return Committed { message: None, resume: None, deferred };
            }
            Repeated::Last(payload) => {
                let ended = state.stores.take::<Job<Self, D>>(payload);
                deferred.stored_target = ended.and_then(|job| job.to.into_target());
            }
            Repeated::Between => return_producer::<M, D>(state, due.payload, &mut deferred),
            Repeated::Armed(deadline) => {
                return_producer::<M, D>(state, due.payload, &mut deferred);
                state.expect_repetition(deadline, wakeup);
            }
        }
        let resume = (repeated == Repeated::Between).then(|| Clocks::of(&recurrence));
        Committed { message: Some(message), resume, deferred }
    }

    fn send_off<D: Destination<M>>(
        Taken { content: Repetition { producer, result, .. }, target }: Taken<Self>,
        state: &mut State,
        ticket: Ticket,
    ) -> (Option<M>, Deferred<Self>) {
        let due = ticket.due;
        let mut deferred = Deferred { producer: Some(producer), ..Deferred::of(target) };
        match result {
            Ok(ready) if state.engine.payload(due.key) == Some(due.payload) => {
                state.engine.plan(due.key, ready.next);
                return_producer::<M, D>(state, due.payload, &mut deferred);
                return (Some(ready.message), deferred);
            }
            Ok(ready) => deferred.message = Some(ready.message),
            Err(outcome) => end::<M, D>(state, ticket, outcome, &mut deferred),
        }
        (None, deferred)
    }

    /// Takes the next message of the series.
    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage> {
        let Producer { mut source, calendar } = self.0?;
        let source = Box::new(move || Box::new(source.next_message()) as _);
        Some(BoxedMessage { contents: BoxedContents::Source(source), rest: Box::new((to, calendar)) })
    }
}

/// Puts a producer back into its series.
fn return_producer<M, D>(state: &mut State, payload: MessageRef, deferred: &mut Deferred<Series<M>>)
where
    M: TimerMessage,
    D: Destination<M>,
{
    if let Some(job) = state.stores.stored_mut::<Job<Series<M>, D>>(payload) {
        job.content.0 = deferred.producer.take();
    }
}

/// Ends a timer without a message, unless it was cancelled meanwhile.
fn end<M, D>(state: &mut State, ticket: Ticket, outcome: Outcome, deferred: &mut Deferred<Series<M>>)
where
    M: TimerMessage,
    D: Destination<M>,
{
    let Some(payload) = state.engine.finish(ticket.due.key, outcome) else { return };
    let ended = state.stores.take::<Job<Series<M>, D>>(payload);
    deferred.stored_target = ended.and_then(|job| job.to.into_target());
    if let Outcome::DeadLettered(reason) = outcome {
        deferred.lose(ticket, reason, None);
    }
}
