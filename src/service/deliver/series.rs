//! The producer of the messages of a repeating timer, as it is stored.

use std::time::{Duration, SystemTime};

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, NextRun, Outcome, Recurrence, Repeated};
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::repeat::{Calendar, Occurrence, RepeatTimes};
use crate::model::source::MessageSource;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Content, Deferred, Destination, Job, Taken, Via};
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef};
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::since_epoch;
use crate::service::schedule::first_run::FirstRun;
use crate::service::state::{Service, State};

/// The producer of a timer's messages; absent while a message is produced.
pub(crate) struct Series<M: TimerMessage>(pub(crate) Option<Producer<M>>);

/// Produces the messages of a timer, and its wall-clock times if it follows a calendar.
pub(crate) struct Producer<M: TimerMessage> {
    pub(crate) source: MessageSource<M>,
    /// Boxed once more, since its pointer is a wide one, and few timers follow one.
    pub(crate) calendar: Option<Box<Calendar>>,
}

/// A due repetition.
pub(crate) struct Repetition<M: TimerMessage> {
    recurrence: Recurrence,
    /// The wall-clock time at which it is due, if it follows that.
    at: Option<Duration>,
    producer: Producer<M>,
    /// The message, once it is produced.
    message: Option<M>,
    /// The run after it, and the time of its computation, or the outcome of the timer.
    result: Result<(NextRun, ClockReading), Outcome>,
}

impl<M: TimerMessage> Producer<M> {
    fn after_this(&mut self, recurrence: &Recurrence, now: ClockReading, via: Via) -> NextRun {
        let Some(calendar) = &mut self.calendar else {
            return recurrence.after_this(now, via != Via::Mailbox);
        };
        let wall = now.wall.unwrap_or_default();
        let [due, wall] =
            [recurrence.wall().unwrap_or(wall), wall].map(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        let at = due.zip(wall).and_then(|(due, now)| calendar(Occurrence { due, now })).map(since_epoch);
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
    type Times = RepeatTimes;
    type Messages = MessageSource<M>;
    type Part = Repetition<M>;
    type Producer = Producer<M>;

    const PRODUCES: bool = true;

    fn first_run(
        times: RepeatTimes,
        service: &Service,
        now: Duration,
        request: TimerRequest<'_>,
    ) -> Result<FirstRun, ScheduleError<()>> {
        service.first_repetition(times, now, request)
    }

    fn new(source: MessageSource<M>, calendar: Option<Box<Calendar>>) -> Self {
        Self(Some(Producer { source, calendar }))
    }

    fn into_message(source: MessageSource<M>) -> Option<M> {
        source.into_original()
    }

    fn take<D>(service: &Service, state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>>
    where
        D: Destination<M>,
    {
        let (recurrence, at) = (state.engine.recurrence(due.key)?.clone(), state.engine.wall_time(due.key));
        let Job { to, content: Self(producer) } = state.stores.stored_mut::<Job<Self, D>>(due.payload)?;
        let (producer, target) = (producer.take()?, to.target().cloned());
        let part = Repetition { recurrence, at, producer, message: None, result: Err(Outcome::Cancelled) };
        Some(Taken::new(service, state, due, target, part))
    }

    fn produce(part: &mut Repetition<M>, service: &Service, via: Via) {
        let Repetition { recurrence, at, producer, message, result } = part;
        let produced = service.contain(|| {
            let now = service.read(recurrence.needs_wall_clock() || at.is_some());
            if recurrence.is_over(*at, now) {
                return Err(Outcome::Cancelled);
            }
            at.iter().for_each(|at| recurrence.follow(*at, now));
            *message = Some(producer.source.next_message());
            Ok((producer.after_this(recurrence, now, via), now))
        });
        *result = produced.unwrap_or(Err(Outcome::DeadLettered(DeadLetterReason::SourcePanicked)));
    }

    /// Sets or plans the next repetition, unless the timer was cancelled meanwhile.
    fn commit<D: Destination<M>>(
        Taken { due, id, target, part: Repetition { producer, message, result, .. } }: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        via: Via,
    ) -> Committed<Self> {
        let mut deferred = Deferred::new(due, target);
        deferred.producer = Some(producer);
        let (next, now) = match undelivered.map_or(result, Err) {
            Ok(ready) => ready,
            Err(outcome) => {
                end(state, id, outcome, message, &mut deferred);
                return (None, deferred);
            }
        };
        let repeated = match via {
            Via::Bell => state.engine.plan(due.key, next),
            Via::Handler | Via::Mailbox => state.engine.repeat(due.key, next, now),
        };
        match state.expect_repetition(repeated, &mut deferred.wakeup) {
            Repeated::Gone => {
                deferred.message = message;
                return (None, deferred);
            }
            Repeated::Last(payload) => deferred.ended = Some(payload),
            Repeated::Between | Repeated::Armed(_) => {
                if let Some(job) = state.stores.stored_mut::<Job<Self, D>>(due.payload) {
                    job.content.0 = deferred.producer.take();
                }
            }
        }
        deferred.is_between = repeated == Repeated::Between;
        (message, deferred)
    }

    /// Takes the next message of the series.
    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage> {
        let Producer { mut source, calendar } = self.0?;
        let contents = Box::new(move || Some(Box::new(source.next_message()) as _));
        Some(BoxedMessage { contents, rest: Box::new((to, calendar)) })
    }
}

/// Ends a timer without a delivery, unless it was cancelled meanwhile.
fn end<M: TimerMessage>(
    state: &mut State,
    id: Option<TimerId>,
    outcome: Outcome,
    message: Option<M>,
    deferred: &mut Deferred<Series<M>>,
) {
    deferred.ended = state.engine.finish(deferred.due.key, outcome);
    match outcome {
        Outcome::DeadLettered(reason) if deferred.ended.is_some() => deferred.lose(id, reason, message),
        _ => deferred.message = message,
    }
}
