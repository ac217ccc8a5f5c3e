//! From a line to a recipient: messages to whom a mailbox policy applies, and those under tracked delivery.
//!
//! All of it runs while the caller has the [turn](super::turns::Turns), so that no two threads send from one line.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::SendError;
use actix::{Message, Recipient};
use tokio::task::unconstrained;

use super::carried::{Carried, try_send};
use super::errand::{Acknowledgement, Answered, wait_for};
use super::escort::Hand;
use super::lanes::{Contents, Guard, Lanes, Payload};
use super::lines::{Line, Posting};
use super::subscribers::Lost;
use super::{Core, Service};
use crate::actor::mailbox_policy::MailboxPolicy;
use crate::actor::target::Target;
use crate::actor::trace::Delivering;
use crate::actor::tracked::Tracked;
use crate::engine::{DeadLetterReason, Ending, Handover};
use crate::timing::{Key, Tick};

pub(super) const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;

/// Messages that leave one line before others have their turn.
const FROM_ONE_LINE: usize = 64;

/// Lines looked at whenever one is made: twice as many as are made, so that those of recipients that have stopped are
/// always less than half of all.
const LOOKED_AT: usize = 2;

/// A message that takes its way through a line.
pub(crate) struct Lined<M>
where
    M: Carried,
{
    pub(crate) target: Target<M::Message>,
    pub(crate) message: M,
    /// Its token in the mailbox, or its place as the next of its line.
    pub(crate) posting: Option<Posting>,
}

/// What is stored for a timer whose messages take their way through a line.
pub(super) trait InLine: Send + Sized + 'static {
    type Message: Message<Result: Send> + Send + 'static;

    /// What becomes of a message for whose token there is no room, and which is to be dropped then, if not the end of its
    /// timer.
    const MISS: Option<Miss>;

    fn target(&self) -> Option<&Target<Self::Message>>;

    fn posting(&mut self) -> &mut Option<Posting>;

    /// Ends a timer for whose recipient nobody can stand in line.
    fn bury<'a>(service: &'a Service, guard: Guard<'a>, due: Handover<Payload>) -> Guard<'a>;

    /// Sends the message itself; see [`Dispatch`].
    fn send_plain<'a>(
        service: &'a Arc<Service>,
        guard: Guard<'a>,
        mailbox: u64,
        due: Handover<Payload>,
        policy: MailboxPolicy,
    ) -> (Guard<'a>, bool);
}

/// Drops a message for whose token there is no room, after unlocking.
pub(super) type Miss = fn(&Service, Guard<'_>, Handover<Payload>);

/// What can be done with messages in a line; compiled for their type.
#[derive(Clone, Copy)]
pub(crate) struct LineRoute {
    dispatch: Dispatch,
    posting: fn(&mut Lanes, Payload) -> Option<&mut Option<Posting>>,
    miss: Option<Miss>,
}

/// Sends the message that is next in a line, unlocking meanwhile. False if it has to wait.
type Dispatch = for<'a> fn(&'a Arc<Service>, Guard<'a>, u64) -> (Guard<'a>, bool);

impl LineRoute {
    pub(super) fn of<S: InLine>() -> Self {
        Self { dispatch: dispatch::<S>, posting: posting::<S>, miss: S::MISS }
    }
}

fn posting<S: InLine>(lanes: &mut Lanes, payload: Payload) -> Option<&mut Option<Posting>> {
    lanes.stored_mut::<S>(payload).map(S::posting)
}

impl<M> InLine for Lined<M>
where
    M: Carried,
{
    type Message = M::Message;

    const MISS: Option<Miss> = None;

    fn target(&self) -> Option<&Target<M::Message>> {
        Some(&self.target)
    }

    fn posting(&mut self) -> &mut Option<Posting> {
        &mut self.posting
    }

    fn bury<'a>(service: &'a Service, guard: Guard<'a>, due: Handover<Payload>) -> Guard<'a> {
        bury_at_once::<M>(service, guard, due)
    }

    fn send_plain<'a>(
        service: &'a Arc<Service>,
        guard: Guard<'a>,
        mailbox: u64,
        due: Handover<Payload>,
        policy: MailboxPolicy,
    ) -> (Guard<'a>, bool) {
        send_plain::<M>(service, guard, mailbox, due, policy)
    }
}

/// What is to be dropped, and told, where no lock is held.
struct Aftermath<T> {
    lost: Option<Lost>,
    remains: T,
}

impl<T> Aftermath<T> {
    fn see_to(self, service: &Service) {
        if let Some(lost) = self.lost {
            service.bury(lost);
        }
        service.contain(|| drop(self.remains));
    }
}

/// Queues what is due in the lines of its recipients, and lets the lines move.
pub(super) fn post_in_lines<'a, S: InLine>(
    service: &'a Arc<Service>,
    mut core: Guard<'a>,
    due: &mut Vec<Handover<Payload>>,
) -> Guard<'a> {
    for handover in due.drain(..) {
        let Some(target) = core.lanes.stored::<S>(handover.payload).and_then(S::target).cloned() else { continue };
        let mailbox = target.mailbox();
        let is_new = core.lines.get(mailbox).is_none();
        // Without a mailbox there is nobody to stand in line for.
        let queue = if mailbox == 0 { None } else { core.line_for(mailbox, || target.anchor()) };
        match queue {
            Some(queue) => {
                core.engine.queue_behind(handover.key, queue);
                core = service.pump(core, mailbox).0;
            }
            None => core = S::bury(service, core, handover),
        }
        drop(core);
        service.contain(|| drop(target));
        core = service.core();
        if is_new {
            core = service.look_after_lines(core);
        }
    }
    core
}

fn bury_at_once<'a, M>(service: &'a Service, mut core: Guard<'a>, due: Handover<Payload>) -> Guard<'a>
where
    M: Carried,
{
    let lined = core.lanes.take::<Lined<M>>(due.payload);
    let id = service.id_for_letter(&core, due.key);
    core.engine.finish(due.key, Ending::DeadLettered(STOPPED));
    drop(core);
    if let Some(Lined { target, message, .. }) = lined {
        aftermath(id, due.deadline, STOPPED, Some(message), target).see_to(service);
    }
    service.core()
}

fn aftermath<M: Carried, T>(
    id: Option<crate::actor::TimerId>,
    deadline: Tick,
    reason: DeadLetterReason,
    message: Option<M>,
    remains: T,
) -> Aftermath<(Option<M>, T)> {
    match id {
        Some(id) => Aftermath { lost: Some(Lost::of(id, deadline, reason, message)), remains: (None, remains) },
        None => Aftermath { lost: None, remains: (message, remains) },
    }
}

/// See [`Dispatch`].
fn dispatch<'a, S: InLine>(service: &'a Arc<Service>, mut guard: Guard<'a>, mailbox: u64) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let Some(payload) = core.next_in_line(mailbox) else { return (guard, false) };
    let Some(target) = core.lanes.stored::<S>(payload).and_then(S::target) else { return (guard, false) };
    let policy = target.policy().unwrap_or(service.settings.mailbox_policy);
    let is_tracked = target.is_tracked();
    let Some(line) = core.lines.get(mailbox) else { return (guard, false) };
    // If no answer is on its way nobody would ever tell that the window is open again.
    if let MailboxPolicy::Wait { window } = policy
        && line.under_way() >= window.max(1) as u64
        && line.expects_an_answer()
    {
        return (guard, false);
    }
    let due = match line.held.take() {
        Some((key, _)) => core.engine.begin(key),
        None => core.engine.escort_due(line.queue),
    };
    let Some(due) = due else { return (guard, false) };
    if is_tracked {
        send_token::<S>(service, guard, mailbox, due, policy)
    } else {
        S::send_plain(service, guard, mailbox, due, policy)
    }
}

fn send_plain<'a, M>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    mailbox: u64,
    due: Handover<Payload>,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool)
where
    M: Carried,
{
    let core = &mut *guard;
    let id = service.id_for_letter(core, due.key);
    let Some(line) = core.lines.get(mailbox) else { return (guard, false) };
    let Some(Lined { target, message, .. }) = core.lanes.take::<Lined<M>>(due.payload) else { return (guard, true) };
    let recipient = match line.take_sender::<M::Message>().or_else(|| target.open()) {
        Some(recipient) if recipient.connected() => recipient,
        closed => {
            core.engine.finish(due.key, Ending::DeadLettered(STOPPED));
            drop(guard);
            // The sender that was kept may be the last address.
            aftermath(id, due.deadline, STOPPED, Some(message), (target, closed)).see_to(service);
            return (service.core(), true);
        }
    };
    if !line.has_request {
        line.has_request = true;
        let position = line.send_plain();
        core.engine.finish(due.key, Ending::Delivered);
        drop(guard);
        let lost = send_request(service, mailbox, position, &due, &recipient, message);
        let mut guard = service.core();
        if lost {
            guard.engine.bounce(due.key, STOPPED);
        }
        let spare = guard.keep_sender(mailbox, recipient);
        drop(guard);
        let message: Option<M> = None;
        let id = id.filter(|_| lost);
        aftermath(id, due.deadline, STOPPED, message, (target, spare)).see_to(service);
        return (service.core(), true);
    }
    line.send_plain();
    // The books are closed before the message can be seen.
    core.engine.depart(due.key);
    drop(guard);
    // If a waker panics the message is in the mailbox all the same.
    let sent = service.contain(|| try_send(&recipient, message)).unwrap_or(Ok(()));
    let now = service.read_clock();
    if sent.is_ok() {
        let _ = service.contain(|| service.hand_over(due.key, due.deadline));
    }
    let mut guard = service.core();
    let core = &mut *guard;
    let (reason, message) = match sent {
        Ok(()) => {
            core.engine.arrive(due.key);
            (None, None)
        }
        Err(SendError::Full(message)) if policy != MailboxPolicy::Drop && !core.lines.is_closed() => {
            let spare = core.keep_sender(mailbox, recipient);
            let number = core.lines.number();
            let posting = Some(Posting { mailbox, number });
            return match core.lanes.put(due.payload.lane, Lined { target, message, posting }) {
                Ok(payload) => {
                    core.engine.set_payload(due.key, payload);
                    core.engine.turn_back(due.key);
                    core.hold(mailbox, due.key, number, now);
                    if let Some(line) = core.lines.get(mailbox) {
                        line.unsend_plain();
                    }
                    drop(guard);
                    service.contain(|| drop(spare));
                    (service.core(), false)
                }
                Err(Lined { target, message, .. }) => {
                    let reason = DeadLetterReason::MailboxFull;
                    core.engine.refuse(due.key, reason);
                    drop(guard);
                    aftermath(id, due.deadline, reason, Some(message), (target, spare)).see_to(service);
                    (service.core(), true)
                }
            };
        }
        Err(error) => {
            let reason = match error {
                SendError::Closed(_) => STOPPED,
                SendError::Full(_) if core.lines.is_closed() => DeadLetterReason::ServiceStopped,
                SendError::Full(_) => DeadLetterReason::MailboxFull,
            };
            core.engine.refuse(due.key, reason);
            if let Some(line) = core.lines.get(mailbox) {
                line.unsend_plain();
            }
            (Some(reason), Some(error.into_inner()))
        }
    };
    let spare = core.keep_sender(mailbox, recipient);
    drop(guard);
    let id = id.filter(|_| reason.is_some());
    aftermath(id, due.deadline, reason.unwrap_or(STOPPED), message, (target, spare)).see_to(service);
    (service.core(), true)
}

/// Sends a message as a request, which is always accepted unless the mailbox was closed meanwhile: true if it was, and the
/// message is lost.
pub(super) fn send_request<M>(
    service: &Arc<Service>,
    mailbox: u64,
    position: u64,
    due: &Handover<Payload>,
    recipient: &Recipient<M::Message>,
    message: M,
) -> bool
where
    M: Carried,
{
    let _delivering = service.contain(|| service.hand_over(due.key, due.deadline));
    let answered = Answered::Request(position);
    let acknowledgement = Acknowledgement { service: Arc::clone(service), mailbox, answered };
    let answer = service
        .contain(|| wait_for(Box::pin(unconstrained(recipient.send(message.unpack()))), acknowledgement))
        .flatten();
    let failed = answer.as_ref().is_some_and(Result::is_err);
    service.contain(|| drop(answer));
    failed && !recipient.connected()
}

fn send_token<'a, S: InLine>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    mailbox: u64,
    due: Handover<Payload>,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let number = core.lines.number();
    let Some(stored) = core.lanes.stored_mut::<S>(due.payload) else { return (guard, true) };
    *stored.posting() = Some(Posting { mailbox, number });
    let Some(target) = stored.target().cloned() else { return (guard, true) };
    let Some(line) = core.lines.get(mailbox) else { return (guard, false) };
    line.send_token(due.key, number);
    core.engine.post(due.key);
    let asks_for_room = policy != MailboxPolicy::Unbounded;
    let kept = if asks_for_room { line.take_sender::<Tracked<S::Message>>() } else { None };
    let recipient = kept.or_else(|| target.open_tracked());
    drop(guard);
    let token = Tracked::<S::Message>::new(Arc::clone(service), due.key, number);
    let refused = match &recipient {
        Some(recipient) => service.contain(|| recipient.try_send(token)).and_then(Result::err),
        // It is a dead letter when the token is dropped.
        None => {
            drop(token);
            None
        }
    };
    let mut is_held = false;
    match refused {
        Some(SendError::Full(mut token)) if policy != MailboxPolicy::Drop => {
            token.close();
            is_held = true;
        }
        Some(SendError::Full(mut token)) => token.give_up(DeadLetterReason::MailboxFull),
        // The same.
        Some(SendError::Closed(token)) => drop(token),
        None => {}
    }
    let now = if is_held { service.read_clock() } else { Duration::ZERO };
    let mut guard = service.core();
    let core = &mut *guard;
    if is_held && core.posting_of(due.key) == Some(number) {
        if let Some(line) = core.lines.get(mailbox) {
            line.take_token_back();
        }
        core.hold(mailbox, due.key, number, now);
    }
    let spare =
        recipient.and_then(|sender| if asks_for_room { core.keep_sender(mailbox, sender) } else { Some(sender) });
    drop(guard);
    service.contain(|| drop((spare, target)));
    (service.core(), !is_held)
}

impl Core {
    fn line_route(&self, payload: Payload) -> Option<LineRoute> {
        self.lanes.line_route(payload)
    }

    /// The number under which a message is out of its line.
    pub(super) fn posting_of(&mut self, key: Key) -> Option<u64> {
        if !self.engine.is_posted(key) {
            return None;
        }
        let payload = self.engine.payload(key)?;
        let posting = self.line_route(payload)?.posting;
        posting(&mut self.lanes, payload)?.map(|posting| posting.number)
    }

    /// The message stays the next of its line until there is room for it.
    pub(super) fn hold(&mut self, mailbox: u64, key: Key, number: u64, now: Duration) {
        if let Some(line) = self.lines.get(mailbox) {
            line.held = Some((key, number));
        }
        self.lines.note_full(mailbox, now);
    }

    /// Keeps a sender if it is still of use, and hands it back otherwise.
    pub(super) fn keep_sender<M>(&mut self, mailbox: u64, sender: Recipient<M>) -> Option<Recipient<M>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if self.lines.is_closed() {
            return Some(sender);
        }
        match self.lines.get(mailbox) {
            Some(line) => line.keep_sender(sender).err(),
            None => Some(sender),
        }
    }

    /// A timer that was [posted](crate::engine::Engine::is_posted) has been moved to another deadline: whatever stands for
    /// it in a mailbox has nothing to do any more. True if something may move for it.
    pub(crate) fn recall(&mut self, key: Key) -> bool {
        let Some(payload) = self.engine.payload(key) else { return false };
        let Some(route) = self.line_route(payload) else { return false };
        let posting = (route.posting)(&mut self.lanes, payload).and_then(Option::take);
        posting.is_some_and(|posting| self.lines.withdraw(posting))
    }
}

impl Service {
    /// Lets a line move as far as it can. Returns how many messages have left it.
    pub(crate) fn pump<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, mailbox: u64) -> (Guard<'a>, usize) {
        for sent in 0..FROM_ONE_LINE {
            let core = &mut *guard;
            let next = core.next_in_line(mailbox).and_then(|payload| core.line_route(payload));
            let Some(route) = next else {
                core.note_waiting_in_line(mailbox);
                let idle = core.lines.get(mailbox).map(Line::take_idle_senders);
                let removed = core.remove_line(mailbox, false);
                drop(guard);
                self.contain(|| drop((idle, removed)));
                return (self.core(), sent);
            };
            let moved;
            (guard, moved) = (route.dispatch)(self, guard, mailbox);
            if !moved {
                guard.note_waiting_in_line(mailbox);
                return (guard, sent);
            }
            if let Some(line) = guard.lines.get(mailbox) {
                line.note_room();
            }
        }
        guard.lines.call(mailbox);
        guard.note_waiting_in_line(mailbox);
        (guard, FROM_ONE_LINE)
    }

    /// Lets all lines move in which something may be able to, within a budget. True if there are more.
    pub(crate) fn pump_called<'a>(
        self: &'a Arc<Self>,
        mut guard: Guard<'a>,
        now: Duration,
        hand: Hand,
    ) -> (Guard<'a>, bool) {
        guard.lines.retry(now);
        let mut budget = self.settings.expiry_budget;
        while budget > 0
            && let Some(mailbox) = guard.lines.answer_call()
        {
            let sent;
            let addressee = if hand == Hand::Watch { guard.owner_at(mailbox) } else { None };
            (guard, sent) = self.send_elsewhere(guard, addressee, |guard| self.pump(guard, mailbox));
            budget = budget.saturating_sub(sent.max(1));
            // That it was tried again, if nothing else.
            guard.published.ask_to_publish();
        }
        let more = guard.lines.has_calls();
        if !more {
            guard.lines.called_at = None;
        }
        (guard, more)
    }

    /// Removes lines whose recipients have stopped, where nothing else tells.
    fn look_after_lines<'a>(&'a self, mut guard: Guard<'a>) -> Guard<'a> {
        let round = guard.lines.next_round(LOOKED_AT);
        drop(guard);
        let mut gone = Vec::new();
        let mut there = Vec::new();
        for (mailbox, anchor) in round {
            let is_there = self.contain(|| anchor.is_there()).unwrap_or(false);
            if is_there { there.push(mailbox) } else { gone.push(mailbox) }
        }
        let mut guard = self.core();
        let removed: Vec<_> = gone.iter().filter_map(|mailbox| guard.remove_line(*mailbox, true)).collect();
        for mailbox in there.into_iter().chain(gone) {
            if guard.lines.get(mailbox).is_some() {
                guard.lines.look_again(mailbox);
            }
        }
        drop(guard);
        self.contain(|| drop(removed));
        self.core()
    }

    /// The time, for whom a panic of the clock is not to disturb.
    pub(super) fn read_clock(&self) -> Duration {
        self.contain(|| self.clock.now()).unwrap_or(Duration::ZERO)
    }

    /// A recipient has answered.
    pub(crate) fn acknowledge(&self, mailbox: u64, answered: Answered) {
        let mut core = self.core();
        let landed = match answered {
            Answered::Token(key) => Some((key, core.land_repetition(key, Ending::Delivered))),
            Answered::Request(_) => None,
        };
        let publish = core.published.ask_to_publish();
        let idle = core.lines.answer(mailbox, answered);
        let removed = core.remove_line(mailbox, false);
        drop(core);
        let has_ended = removed.is_some();
        self.contain(|| drop((idle, removed)));
        if let Some((key, landed)) = landed {
            self.contain(|| self.after_landing(key, landed));
        }
        if !has_ended {
            self.ask_to_pump();
        } else if publish {
            self.driver.wake();
        }
    }

    /// Has the driver let lines move that were called.
    pub(crate) fn ask_to_pump(&self) {
        if self.is_watched() {
            let now = self.read_clock();
            self.core().lines.called_at.get_or_insert(now);
            self.expect(self.tick.round_down(now));
        }
        self.driver.wake();
    }

    /// The token of a message is handled: takes the message out, if the token is still the one that stands for it.
    pub(crate) fn begin<M: Carried>(
        self: &Arc<Self>,
        key: Key,
        number: u64,
    ) -> Option<(M, Acknowledgement, Option<Delivering>)> {
        let mut guard = self.core();
        let core = &mut *guard;
        if core.posting_of(key) != Some(number) {
            return None;
        }
        let due = core.engine.begin(key)?;
        if core.engine.is_making(key) {
            return self.begin_repetition(guard, due, number);
        }
        let Lined { target, message, posting } = core.lanes.take::<Lined<M>>(due.payload)?;
        let mailbox = posting?.mailbox;
        let was_full = core.lines.pass_token(mailbox, number);
        drop(guard);
        let acknowledgement = Acknowledgement { service: Arc::clone(self), mailbox, answered: Answered::Token(key) };
        self.contain(|| drop(target));
        let delivering = self.contain(|| self.hand_over(due.key, due.deadline));
        if was_full {
            self.ask_to_pump();
        }
        Some((message, acknowledgement, delivering))
    }

    /// The token of a message will never be handled: it is a dead letter, if the token still stands for it.
    pub(crate) fn lose(&self, key: Key, number: u64, reason: DeadLetterReason) {
        let mut guard = self.core();
        let core = &mut *guard;
        if core.posting_of(key) != Some(number) {
            return;
        }
        let id = self.id_for_letter(core, key);
        let Some(due) = core.engine.begin(key) else { return };
        core.recall(key);
        let miss = core.line_route(due.payload).and_then(|route| route.miss);
        if let Some(miss) = miss.filter(|_| reason == DeadLetterReason::MailboxFull) {
            miss(self, guard, due);
            self.ask_to_pump();
            return;
        }
        let lane = core.lanes.lane(due.payload.lane).map(|lane| (lane.unload, lane.message_type));
        let unloaded =
            lane.and_then(|(unload, message_type)| Some((unload(&mut core.lanes, due.payload)?, message_type)));
        core.engine.fail(key, Ending::DeadLettered(reason));
        core.published.ask_to_publish();
        drop(guard);
        if let Some((unloaded, message_type)) = unloaded {
            match id {
                Some(id) => {
                    let message = match unloaded.contents {
                        Contents::Message(message) => Some(message),
                        // None is made for whom there is nobody.
                        Contents::Source(source) => self.contain(|| drop(source)).and(None),
                    };
                    self.bury(Lost { id, deadline: due.deadline, reason, message_type, message });
                }
                None => drop(self.contain(|| drop(unloaded.contents))),
            }
            self.contain(|| drop(unloaded.target));
        }
        self.ask_to_pump();
    }
}
