//! Admission: a request becomes a timer in the engine and a message in its store, or is rejected with its message.
//!
//! All single requests pass [`Service::schedule`]: the [plan](Plan::first_run) computes the deadline, the
//! [recipient](Addressee::admit) selects the store, and [`State::admit`] admits. [`Service::schedule_batch`] computes
//! the deadlines of many single messages itself, from one reading of the clock, and admits them under one lock.

use std::any::{TypeId, type_name};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use actix::Actor;

use crate::engine::{KeyScope, Marks, OwnerId, Recurrence, RejectReason, Timer};
use crate::model::closure::Place;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::options::TimerOptions;
use crate::model::request_time::RequestTime;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::delivery::{ByClosure, ByHandler, OwnHandler};
use crate::service::deliver::job::{Job, Own, Queued};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::deadline::{DueTime, Schedule};
use crate::service::schedule::plan::{Impossible, Plan};
use crate::service::state::{Service, State};
use crate::timing::Key;

/// The driver is woken after this many admissions, even if none is due earlier than its alarm: a bucket far away may
/// have become so full that its cascade has to begin early.
const POKE_EVERY: u64 = 4096;

/// Timers of a batch that are admitted under one lock: some microseconds' worth.
pub(crate) const ADMITTED_AT_ONCE: usize = 64;

/// A request for a timer, apart from its recipient and its messages.
pub(crate) struct TimerRequest<'o, P> {
    pub(crate) plan: P,
    /// The age of the request, measured before the call.
    pub(crate) waited: Duration,
    /// The caller's id.
    pub(crate) id: Option<TimerId>,
    pub(crate) options: Option<&'o TimerOptions>,
}

impl<'o, P> TimerRequest<'o, P> {
    /// Returns a request of this moment.
    pub(crate) const fn now(plan: P, options: Option<&'o TimerOptions>) -> Self {
        Self { plan, waited: Duration::ZERO, id: None, options }
    }
}

/// A request for one message of a batch.
pub(crate) struct BatchEntry<M: TimerMessage> {
    pub(crate) target: Target<M>,
    pub(crate) schedule: Schedule,
    pub(crate) requested: RequestTime,
    pub(crate) options: Option<Arc<TimerOptions>>,
    pub(crate) message: M,
}

/// A timer to be admitted, apart from its messages.
pub(crate) struct NewTimer<'o> {
    due_time: DueTime,
    recurrence: Option<Recurrence>,
    /// Contains its owner; see [`Addressee::key_scope`].
    key_scope: Option<KeyScope>,
    /// The type of its messages, for its key.
    key_type: TypeId,
    /// Whether it keeps its owner's actor alive.
    keeps_alive: bool,
    id: Option<TimerId>,
    options: Option<&'o TimerOptions>,
}

/// An admitted timer.
pub(crate) struct Admitted {
    key: Key,
    /// The message of the timer that had its key, to be dropped after unlocking.
    replaced: Option<MessageRef>,
}

/// A rejected timer: the reason, and its parts.
pub(crate) struct NotAdmitted<T, P> {
    reason: NotAdmittedReason,
    to: T,
    packed: P,
}

enum NotAdmittedReason {
    Duplicate(TimerId),
    Engine(RejectReason),
}

type Admission<T, P> = Result<Admitted, NotAdmitted<T, P>>;

/// The recipient in a request: the actor that schedules, or a target. It selects the store, and the
/// [`Destination`](crate::service::deliver::job::Destination) to be stored.
pub(crate) trait Addressee<M: TimerMessage>: Sized {
    /// Whether the messages cannot leave the thread.
    const IS_THREAD_BOUND: bool = false;

    /// Returns the place of the call, if it names the type of the messages.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Returns the type of the messages, as shown to users.
    fn message_type(_: Option<Place>) -> &'static str {
        type_name::<M>()
    }

    /// Returns the type by which keys are distinguished.
    fn key_type() -> TypeId {
        TypeId::of::<M>()
    }

    /// Returns the timers in which a key is unique for each kind of messages; `None` if the recipient had gone before
    /// it was named.
    fn key_scope(&self) -> Option<KeyScope>;

    /// Returns whether a timer keeps the recipient alive, if it is an owner.
    fn keeps_alive(&self, _: Option<&TimerOptions>) -> bool {
        false
    }

    /// Admits a timer with its messages in the store for this recipient.
    fn admit<P>(
        self,
        state: &mut State,
        policy: MailboxPolicy,
        timer: &NewTimer<'_>,
        packed: P::Packed,
        wakeup: &mut Wakeup,
    ) -> Admission<Self, P::Packed>
    where
        P: Plan<M>;
}

/// The actor of type `A` that schedules, as an owner, and the handler of the messages.
pub(crate) struct OwnerOf<A, H> {
    id: OwnerId,
    place: Option<Place>,
    types: PhantomData<fn(A, H)>,
}

impl<A> OwnerOf<A, ByHandler> {
    pub(crate) const fn new(id: OwnerId) -> Self {
        Self { id, place: None, types: PhantomData }
    }
}

impl<A> OwnerOf<A, ByClosure> {
    pub(crate) const fn at(place: Place, id: OwnerId) -> Self {
        Self { id, place: Some(place), types: PhantomData }
    }
}

impl<A, H, M> Addressee<M> for OwnerOf<A, H>
where
    A: Actor,
    H: OwnHandler<A, M>,
    M: TimerMessage,
{
    const IS_THREAD_BOUND: bool = H::IS_THREAD_BOUND;

    #[inline(always)]
    fn place(&self) -> Option<Place> {
        self.place
    }

    fn message_type(place: Option<Place>) -> &'static str {
        H::message_type(place)
    }

    fn key_type() -> TypeId {
        H::key_type()
    }

    fn key_scope(&self) -> Option<KeyScope> {
        Some(KeyScope::Owner(self.id))
    }

    #[inline(always)]
    fn keeps_alive(&self, options: Option<&TimerOptions>) -> bool {
        options.and_then(|options| options.keep_alive).unwrap_or(H::KEEPS_ALIVE)
    }

    #[inline(always)]
    fn admit<P>(
        self,
        state: &mut State,
        _: MailboxPolicy,
        timer: &NewTimer<'_>,
        packed: P::Packed,
        wakeup: &mut Wakeup,
    ) -> Admission<Self, P::Packed>
    where
        P: Plan<M>,
    {
        let store = state.stores.own::<A, H, P::Job<Own>>(self.place);
        let admission = state.admit::<P::Job<Own>>(timer, store, Own, packed, wakeup);
        admission.map_err(|NotAdmitted { reason, packed, .. }| NotAdmitted { reason, to: self, packed })
    }
}

impl<M: TimerMessage> Addressee<M> for Target<M> {
    fn key_scope(&self) -> Option<KeyScope> {
        self.mailbox().map(KeyScope::from)
    }

    #[inline(always)]
    fn admit<P>(
        self,
        state: &mut State,
        policy: MailboxPolicy,
        timer: &NewTimer<'_>,
        packed: P::Packed,
        wakeup: &mut Wakeup,
    ) -> Admission<Self, P::Packed>
    where
        P: Plan<M>,
    {
        if self.is_queued(policy) {
            return admit_queued::<P, M>(self, state, timer, packed, wakeup);
        }
        let store = state.stores.plain::<P::Job<Self>>();
        state.admit::<P::Job<Self>>(timer, store, self, packed, wakeup)
    }
}

/// Not inlined, so that its code does not burden the other paths.
#[inline(never)]
fn admit_queued<P, M>(
    target: Target<M>,
    state: &mut State,
    timer: &NewTimer<'_>,
    packed: P::Packed,
    wakeup: &mut Wakeup,
) -> Admission<Target<M>, P::Packed>
where
    P: Plan<M>,
    M: TimerMessage,
{
    let store = state.stores.queued::<P::Job<Queued<M>>>();
    let to = Queued::new(target);
    let admission = state.admit::<P::Job<Queued<M>>>(timer, store, to, packed, wakeup);
    admission.map_err(|NotAdmitted { reason, to, packed }| NotAdmitted { reason, to: to.target, packed })
}

impl Service {
    /// Schedules the messages of one timer. If it is rejected, its message becomes a dead letter, and the id is that of
    /// no timer.
    #[inline(always)]
    pub(crate) fn schedule<P, R, M>(&self, request: TimerRequest<'_, P>, to: R, messages: P::Messages) -> TimerId
    where
        P: Plan<M>,
        R: Addressee<M>,
        M: TimerMessage,
    {
        let place = to.place();
        let scheduled = self.schedule_packed::<P, R, M>(request, to, P::pack(messages));
        scheduled
            .unwrap_or_else(|rejected| self.lose_rejected::<P, M>(rejected, R::message_type(place), R::IS_THREAD_BOUND))
    }

    /// Schedules the messages of one timer. If it is rejected, the error returns them.
    #[inline(always)]
    pub(crate) fn try_schedule<P, R, M>(
        &self,
        request: TimerRequest<'_, P>,
        to: R,
        messages: P::Messages,
    ) -> Result<TimerId, ScheduleError<P::Messages>>
    where
        P: Plan<M>,
        R: Addressee<M>,
        M: TimerMessage,
    {
        self.unpacked::<P, M>(self.schedule_packed::<P, R, M>(request, to, P::pack(messages)))
    }

    #[inline(always)]
    fn schedule_packed<P, R, M>(
        &self,
        TimerRequest { plan, waited, id, options }: TimerRequest<'_, P>,
        to: R,
        mut packed: P::Packed,
    ) -> Result<TimerId, ScheduleError<P::Packed>>
    where
        P: Plan<M>,
        R: Addressee<M>,
        M: TimerMessage,
    {
        let (due_time, recurrence) = match plan.first_run(self, waited, options, &mut packed) {
            Ok(first_run) => first_run,
            Err(impossible) => return Err(self.report_impossible(impossible, packed)),
        };
        let delay = due_time.delay;
        let timer = NewTimer {
            due_time,
            recurrence,
            key_scope: to.key_scope(),
            key_type: R::key_type(),
            keeps_alive: to.keeps_alive(options),
            id,
            options,
        };
        let mut wakeup = Wakeup::default();
        let mut state = self.state();
        let admission = to.admit::<P>(&mut state, self.settings.mailbox_policy, &timer, packed, &mut wakeup);
        match admission.as_ref().ok().and_then(|admitted| admitted.replaced) {
            Some(payload) => self.discard(state, payload),
            None => drop(state),
        }
        self.notify(wakeup);
        self.answer(delay, id, admission)
    }

    /// Schedules some messages, in order, with one reading of the clock and one lock.
    pub(crate) fn schedule_batch<M: TimerMessage>(
        &self,
        entries: Vec<BatchEntry<M>>,
        answers: &mut Vec<Result<TimerId, ScheduleError<M>>>,
    ) {
        // Before the reading: an age that ends after it would make the message due too early.
        let ages: Vec<_> = entries.iter().map(|entry| self.clock.since_request(entry.requested)).collect();
        let now = self.clock.now();
        let prepared: Vec<_> = entries
            .into_iter()
            .zip(ages)
            .map(|(BatchEntry { target, schedule, options, message, .. }, waited)| {
                let due_time = self.due_time(now, waited, schedule, options.as_deref());
                (target, due_time, options, message)
            })
            .collect();
        let (mut wakeup, mut replaced) = (Wakeup::default(), Vec::new());
        let mut state = self.state();
        let admissions: Vec<_> = prepared
            .into_iter()
            .map(|(target, due_time, options, message)| {
                let (delay, policy) = (due_time.delay, self.settings.mailbox_policy);
                let (key_scope, options) = (target.key_scope(), options.as_deref());
                let key_type = TypeId::of::<M>();
                let timer =
                    NewTimer { due_time, recurrence: None, key_scope, key_type, keeps_alive: false, id: None, options };
                let admission = target.admit::<Schedule>(&mut state, policy, &timer, message, &mut wakeup);
                replaced.extend(admission.as_ref().ok().and_then(|admitted| admitted.replaced));
                (delay, admission)
            })
            .collect();
        self.discard_all(state, replaced);
        self.notify(wakeup);
        answers.extend(
            admissions
                .into_iter()
                .map(|(delay, admission)| self.unpacked::<Schedule, M>(self.answer(delay, None, admission))),
        );
    }

    /// Answers a request.
    #[inline(always)]
    fn answer<T, P>(
        &self,
        delay: Duration,
        id: Option<TimerId>,
        admission: Admission<T, P>,
    ) -> Result<TimerId, ScheduleError<P>> {
        match admission {
            Ok(Admitted { key, .. }) => {
                self.meters.schedule_delay.record(delay.as_secs_f64());
                let id = id.unwrap_or_else(|| TimerId::of_timer(self.number, key));
                self.begin_span(key, id, delay);
                Ok(id)
            }
            Err(NotAdmitted { reason, packed, .. }) => Err(self.report_rejected(reason, packed)),
        }
    }

    /// Counts a rejection, and returns it with the messages. Not inlined: the messages of accepted requests are moved
    /// piece by piece where they could become part of an error.
    #[cold]
    #[inline(never)]
    fn report_rejected<P>(&self, reason: NotAdmittedReason, message: P) -> ScheduleError<P> {
        match reason {
            NotAdmittedReason::Duplicate(id) => {
                self.meters.rejected_duplicate.increment(1);
                ScheduleError::DuplicateId { id, message }
            }
            NotAdmittedReason::Engine(RejectReason::Capacity) => {
                ScheduleError::CapacityReached { capacity: self.settings.engine.capacity, message }
            }
            NotAdmittedReason::Engine(RejectReason::Closed | RejectReason::OwnerEnded) => {
                ScheduleError::Stopped { message }
            }
        }
    }

    /// Counts a request for an impossible timer, and returns it with the messages.
    #[cold]
    #[inline(never)]
    fn report_impossible<P>(&self, impossible: Impossible, message: P) -> ScheduleError<P> {
        self.meters.rejected_invalid.increment(1);
        impossible.with(message)
    }

    /// Unpacks the messages of a rejected request.
    #[inline(always)]
    fn unpacked<P, M>(
        &self,
        answer: Result<TimerId, ScheduleError<P::Packed>>,
    ) -> Result<TimerId, ScheduleError<P::Messages>>
    where
        P: Plan<M>,
        M: TimerMessage,
    {
        match answer {
            Ok(id) => Ok(id),
            Err(rejected) => Err(self.unpack_rejected::<P, M>(rejected)),
        }
    }

    /// Not inlined, as [`Service::report_rejected`].
    #[cold]
    #[inline(never)]
    fn unpack_rejected<P, M>(&self, rejected: ScheduleError<P::Packed>) -> ScheduleError<P::Messages>
    where
        P: Plan<M>,
        M: TimerMessage,
    {
        rejected.map(|packed| P::unpack(self, packed))
    }
}

impl State {
    /// Admits a timer with its message and labels, in place of the one that had its key. The exchange is atomic: no one
    /// sees both, or neither.
    #[inline(always)]
    fn admit<J: Job>(
        &mut self,
        timer: &NewTimer<'_>,
        store: u32,
        to: J::To,
        packed: J::Packed,
        wakeup: &mut Wakeup,
    ) -> Admission<J::To, J::Packed> {
        let NewTimer { due_time, recurrence, key_scope, key_type, keeps_alive, id, options } = timer;
        let name = id.map(|id| id.as_uuid().as_u128());
        if let Some((id, name)) = id.zip(name)
            && self.engine.named(name).is_some_and(|key| self.engine.view(key).is_some())
        {
            return Err(NotAdmitted { reason: NotAdmittedReason::Duplicate(id), to, packed });
        }
        if !self.owners.ended.is_empty() {
            self.make_room();
        }
        // Admission and rejection both change the counters to publish.
        wakeup.poke |= self.reports.published.ask_to_publish();
        let scoped = options.zip(*key_scope);
        let label = scoped.and_then(|(options, scope)| self.key_types.scoped_key(options, scope, *key_type));
        let old = label.as_ref().and_then(|key| self.engine.keyed(key));
        let slab = self.stores.slab::<J>(store);
        let Some((slab, slot)) = slab.and_then(|slab| slab.reserve().map(|slot| (slab, slot))) else {
            let reason = self.engine.reject(RejectReason::Capacity);
            return Err(NotAdmitted { reason: NotAdmittedReason::Engine(reason), to, packed });
        };
        let payload = MessageRef { store, slot };
        let key = match self.engine.schedule(
            self.tags.next(),
            due_time.now,
            due_time.deadline,
            key_scope.and_then(KeyScope::owner),
            Timer::new(payload, Marks::keeping(*keeps_alive)),
            old,
        ) {
            Ok(key) => key,
            Err(reason) => {
                slab.give_back(slot);
                return Err(NotAdmitted { reason: NotAdmittedReason::Engine(reason), to, packed });
            }
        };
        slab.fill(slot, J::new(to, packed));
        if let Some(recurrence) = recurrence {
            // There is room for as many recurrences as timers.
            self.engine.set_recurrence(key, recurrence.clone());
        }
        if let Some(wall) = due_time.wall {
            self.engine.set_wall_time(key, wall);
        }
        if let Some(name) = name {
            self.engine.set_name(key, name);
        }
        let replaced = old.and_then(|old| self.replace(old));
        if let Some(options) = options {
            self.engine.label(key, label, options.group.clone());
        }
        wakeup.poke |= self.engine.counters().accepted.is_multiple_of(POKE_EVERY);
        self.expect_deadline(due_time.deadline, due_time.wall.is_some(), wakeup);
        Ok(Admitted { key, replaced })
    }

    /// Cancels the timer that had the key of a new one. A message that is under way already continues without the key.
    #[cold]
    #[inline(never)]
    fn replace(&mut self, old: Key) -> Option<MessageRef> {
        self.engine.cancel(old).ok()
    }
}
