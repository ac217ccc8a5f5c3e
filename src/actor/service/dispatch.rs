//! From a queue to a recipient: messages to whom a mailbox policy applies, and those under tracked delivery.
//!
//! All of it runs while the caller has the [turn](super::turns::Turns), so that no two threads send from one line.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::SendError;
use actix::{Message, Recipient};
use tokio::task::unconstrained;

use super::admission::News;
use super::carried::{Carried, try_send};
use super::errand::{Acknowledgement, Answered, wait_for};
use super::escort::Hand;
use super::job::{Committed, Deferred, FULL, Job, MessageOf, Queued, STOPPED, Ticket, Via, Way, produce};
use super::lanes::{Guard, Lanes, Payload, Route};
use super::lines::{Line, Posting};
use super::once::Once;
use super::series::Series;
use super::{Core, Service};
use crate::actor::mailbox_policy::MailboxPolicy;
use crate::actor::trace::Delivering;
use crate::actor::tracked::Tracked;
use crate::engine::{DeadLetterReason, Ending, Handover, Now, Repeated};
use crate::timing::Key;

/// Messages that leave one line before others have their turn.
const FROM_ONE_LINE: usize = 64;

/// Lines looked at whenever one is made: twice as many as are made, so that those of recipients that have stopped are
/// always less than half of all.
const LOOKED_AT: usize = 2;

/// A job whose messages take their way through a line.
pub(super) trait Queueable: Job {
    fn queued(&self) -> &Queued<MessageOf<Self>>;

    fn queued_mut(&mut self) -> &mut Queued<MessageOf<Self>>;

    /// Stores a message for which there was no room, as the next of its line. Hands it back if that is not possible.
    fn put_back(
        core: &mut Core,
        ticket: Ticket,
        message: Self::Carried,
        posting: Posting,
        deferred: &mut Deferred<Self>,
    ) -> Result<(), Self::Carried>;
}

impl<C: Carried> Queueable for Once<C, Queued<C::Message>> {
    fn queued(&self) -> &Queued<C::Message> {
        &self.to
    }

    fn queued_mut(&mut self) -> &mut Queued<C::Message> {
        &mut self.to
    }

    fn put_back(
        core: &mut Core,
        Ticket { due, .. }: Ticket,
        message: C,
        posting: Posting,
        deferred: &mut Deferred<Self>,
    ) -> Result<(), C> {
        let Some(Queued { target, .. }) = deferred.rest.take() else { return Err(message) };
        match core.lanes.put(due.payload.lane, Once { to: Queued { target, posting: Some(posting) }, message }) {
            Ok(payload) => {
                core.engine.set_payload(due.key, payload);
                Ok(())
            }
            Err(Once { to, message }) => {
                deferred.rest = Some(to);
                Err(message)
            }
        }
    }
}

impl<C: Carried> Queueable for Series<C, Queued<C::Message>> {
    fn queued(&self) -> &Queued<C::Message> {
        &self.to
    }

    fn queued_mut(&mut self) -> &mut Queued<C::Message> {
        &mut self.to
    }

    fn put_back(
        core: &mut Core,
        ticket: Ticket,
        message: C,
        posting: Posting,
        _: &mut Deferred<Self>,
    ) -> Result<(), C> {
        let Some(series) = core.lanes.stored_mut::<Self>(ticket.due.payload) else { return Err(message) };
        series.keep(message);
        series.to.posting = Some(posting);
        Ok(())
    }
}

/// What can be done with jobs in a line; compiled for their type.
#[derive(Clone, Copy)]
pub(crate) struct LineRoute {
    dispatch: Dispatch,
    posting: fn(&mut Lanes, Payload) -> Option<&mut Option<Posting>>,
    lose: Lose,
}

/// Sends the message that is next in a line, unlocking meanwhile. False if it has to wait.
type Dispatch = for<'a> fn(&'a Arc<Service>, Guard<'a>, u64) -> (Guard<'a>, bool);

/// Makes a dead letter of a message under way, unlocking meanwhile.
type Lose = for<'a> fn(&'a Service, Guard<'a>, Ticket, DeadLetterReason) -> Guard<'a>;

impl Lanes {
    /// The lane for jobs whose messages may have to wait in the line of their recipient.
    pub(super) fn queued<J: Queueable>(&mut self) -> u32 {
        let lane = self.find_or_make::<J, fn(J)>(type_name::<MessageOf<J>>(), || Route::Recipient {
            post: post_in_lines::<J>,
            mailbox: |lanes, payload| lanes.stored::<J>(payload).map(|job| job.queued().target.mailbox()),
            line: Some(LineRoute { dispatch: dispatch::<J>, posting: posting::<J>, lose: lose::<J> }),
        });
        self.discard_by(lane, discard_in_line::<J>)
    }
}

fn posting<J: Queueable>(lanes: &mut Lanes, payload: Payload) -> Option<&mut Option<Posting>> {
    lanes.stored_mut::<J>(payload).map(|job| &mut job.queued_mut().posting)
}

fn discard_in_line<J: Queueable>(service: &Service, mut core: Guard<'_>, payload: Payload) {
    let stored = core.lanes.take::<J>(payload);
    let posting = stored.as_ref().and_then(|stored| stored.queued().posting);
    let makes_room = posting.is_some_and(|posting| core.lines.withdraw(posting));
    drop(core);
    if makes_room {
        service.ask_to_pump();
    }
    drop(stored);
}

/// Queues jobs that are due in the lines of their recipients, and lets the lines move.
fn post_in_lines<'a, J: Queueable>(
    service: &'a Arc<Service>,
    mut core: Guard<'a>,
    due: &mut Vec<Handover<Payload>>,
) -> Guard<'a> {
    for due in due.drain(..) {
        let Some(target) = core.lanes.stored::<J>(due.payload).map(|job| job.queued().target.clone()) else { continue };
        let mailbox = target.mailbox();
        let is_new = core.lines.get(mailbox).is_none();
        // Without a mailbox there is nobody to stand in line for.
        let queue = if mailbox == 0 { None } else { core.line_for(mailbox, || target.anchor()) };
        match queue {
            Some(queue) => {
                core.engine.queue_behind(due.key, queue);
                core = service.pump(core, mailbox).0;
            }
            None => {
                let ticket = Ticket { due, id: service.id_for_letter(&core, due.key) };
                core = lose::<J>(service, core, ticket, STOPPED);
            }
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

/// See [`Lose`]. A mailbox that is full is not closed: a timer that repeats goes on.
fn lose<'a, J: Queueable>(
    service: &'a Service,
    mut guard: Guard<'a>,
    ticket: Ticket,
    reason: DeadLetterReason,
) -> Guard<'a> {
    let Some(taken) = J::take(&mut guard, ticket.due) else { return guard };
    let produced;
    if reason == FULL {
        (guard, produced) = produce::<J>(service, guard, taken, Via::Mailbox);
    } else {
        produced = J::give_up(taken, Ending::DeadLettered(reason));
    }
    let mut news = News::default();
    let Committed { message, mut deferred, .. } = J::commit(produced, &mut guard, ticket, Via::Mailbox, &mut news);
    if message.is_some() {
        guard.engine.bounce(ticket.due.key, reason);
        deferred.lose(ticket, reason, message);
    }
    guard.published.ask_to_publish();
    drop(guard);
    service.tell(news);
    deferred.discard(service);
    service.core()
}

/// See [`Dispatch`].
fn dispatch<'a, J: Queueable>(service: &'a Arc<Service>, mut guard: Guard<'a>, mailbox: u64) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let Some(payload) = core.next_in_line(mailbox) else { return (guard, false) };
    let Some(queued) = core.lanes.stored::<J>(payload).map(J::queued) else { return (guard, false) };
    let policy = queued.target.policy().unwrap_or(service.settings.mailbox_policy);
    let is_tracked = queued.target.is_tracked();
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
        send_token::<J>(service, guard, mailbox, due, policy)
    } else {
        let ticket = Ticket { due, id: service.id_for_letter(&guard, due.key) };
        send_message::<J>(service, guard, mailbox, ticket, policy)
    }
}

/// Sends the message itself: as a request if none is under way, otherwise if there is room for it.
fn send_message<'a, J: Queueable>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    mailbox: u64,
    ticket: Ticket,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let Some(taken) = J::take(core, ticket.due) else { return (guard, true) };
    let posting = Posting { mailbox, number: core.lines.number() };
    let sender = core.lines.get(mailbox).and_then(Line::take_sender);
    let way = Way::to(sender.or_else(|| J::target_of(&taken)?.open()));
    let produced;
    if !way.is_open {
        produced = J::give_up(taken, Ending::DeadLettered(STOPPED));
    } else if J::PRODUCES {
        core.stay_in_front::<J>(ticket.due, posting);
        (guard, produced) = produce::<J>(service, guard, taken, Via::Mailbox);
        guard.leave_front::<J>(ticket.due, posting);
    } else {
        produced = J::produce(taken, service, Via::Mailbox);
    }
    let has_request = guard.lines.get(mailbox).is_some_and(|line| line.has_request);
    match (way.recipient, J::is_ready(&produced)) {
        (Some(recipient), Some(now)) if has_request => {
            try_message::<J>(service, guard, ticket, posting, produced, now, recipient, policy)
        }
        (Some(recipient), Some(_)) => {
            (request_message::<J>(service, guard, ticket, mailbox, produced, recipient), true)
        }
        (unused, _) => {
            let committed = J::commit(produced, &mut guard, ticket, Via::Mailbox, &mut News::default());
            drop(guard);
            committed.deferred.discard(service);
            service.drop_contained(unused);
            (service.core(), true)
        }
    }
}

/// Sends a message as a request, which is always accepted unless the mailbox was closed meanwhile.
fn request_message<'a, J: Queueable>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    ticket: Ticket,
    mailbox: u64,
    produced: J::Produced,
    recipient: Recipient<MessageOf<J>>,
) -> Guard<'a> {
    let core = &mut *guard;
    let mut news = News::default();
    let Committed { message, mut deferred, .. } = J::commit(produced, core, ticket, Via::Mailbox, &mut news);
    let position = core.lines.get(mailbox).filter(|_| message.is_some()).map_or(0, |line| {
        line.has_request = true;
        line.send_plain()
    });
    drop(guard);
    service.tell(news);
    let is_lost =
        message.is_some_and(|message| send_request(service, mailbox, position, &ticket.due, &recipient, message));
    let mut guard = service.core();
    if is_lost {
        if let Some(payload) = guard.engine.break_off(ticket.due.key, STOPPED) {
            service.discard(guard, payload);
            guard = service.core();
        }
        deferred.lose(ticket, STOPPED, None);
    }
    let spare = guard.keep_sender(mailbox, recipient);
    drop(guard);
    deferred.discard(service);
    service.drop_contained(spare);
    service.core()
}

/// Sends a message if there is room for it. If not, and it is to wait, it stays the next of its line.
#[expect(clippy::too_many_arguments, reason = "the steps before have found them out")]
fn try_message<'a, J: Queueable>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    ticket: Ticket,
    posting: Posting,
    produced: J::Produced,
    now: Now,
    recipient: Recipient<MessageOf<J>>,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let (due, mailbox) = (ticket.due, posting.mailbox);
    let (message, mut deferred) = J::send_off(produced, core, ticket);
    let Some(message) = message else {
        drop(guard);
        deferred.discard(service);
        service.drop_contained(recipient);
        return (service.core(), true);
    };
    core.engine.begin_send(due.key);
    if let Some(line) = core.lines.get(mailbox) {
        line.send_plain();
    }
    drop(guard);
    // If a waker panics the message is in the mailbox all the same.
    let sent = service.contain(|| try_send(&recipient, message)).unwrap_or(Ok(()));
    let time = service.read_clock();
    if sent.is_ok() {
        let _ = service.contain(|| service.hand_over(due.key, due.deadline));
    }
    let mut news = News::default();
    let mut guard = service.core();
    let core = &mut *guard;
    if sent.is_err()
        && let Some(line) = core.lines.get(mailbox)
    {
        line.unsend_plain();
    }
    let is_closed = core.lines.is_closed();
    let mut is_held = false;
    match sent {
        Ok(()) => core.commit_send(ticket, now, &mut deferred, &mut news),
        Err(SendError::Full(message)) if policy != MailboxPolicy::Drop && !is_closed => {
            match J::put_back(core, ticket, message, posting, &mut deferred) {
                Ok(()) => {
                    core.engine.requeue_send(due.key);
                    core.hold(mailbox, due.key, posting.number, time);
                    is_held = true;
                }
                Err(message) => core.reject_send(ticket, FULL, message, &mut deferred),
            }
        }
        Err(SendError::Full(message)) if !is_closed => {
            core.commit_send(ticket, now, &mut deferred, &mut news);
            core.engine.bounce(due.key, FULL);
            deferred.lose(ticket, FULL, Some(message));
        }
        Err(error) => {
            let is_full = matches!(error, SendError::Full(_));
            let reason = if is_full { DeadLetterReason::ServiceStopped } else { STOPPED };
            core.reject_send(ticket, reason, error.into_inner(), &mut deferred);
        }
    }
    let spare = core.keep_sender(mailbox, recipient);
    drop(guard);
    service.tell(news);
    deferred.discard(service);
    service.drop_contained(spare);
    (service.core(), !is_held)
}

/// Puts a request into the mailbox. True if that was closed meanwhile, and the message is lost.
fn send_request<M>(
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

fn send_token<'a, J: Queueable>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    mailbox: u64,
    due: Handover<Payload>,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool) {
    let core = &mut *guard;
    let number = core.lines.number();
    let Some(queued) = core.lanes.stored_mut::<J>(due.payload).map(J::queued_mut) else { return (guard, true) };
    queued.posting = Some(Posting { mailbox, number });
    let target = queued.target.clone();
    let Some(line) = core.lines.get(mailbox) else { return (guard, false) };
    line.send_token(due.key, number);
    core.engine.post(due.key);
    let asks_for_room = policy != MailboxPolicy::Unbounded;
    let kept = if asks_for_room { line.take_sender::<Tracked<MessageOf<J>>>() } else { None };
    let recipient = kept.or_else(|| target.open_tracked());
    drop(guard);
    let token = Tracked::<MessageOf<J>>::new(Arc::clone(service), due.key, number);
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
    /// The message of a timer that was sent off is in its mailbox.
    fn commit_send<J: Job>(&mut self, ticket: Ticket, now: Now, deferred: &mut Deferred<J>, news: &mut News) {
        match self.engine.commit_send(ticket.due.key, now) {
            Repeated::Last(payload) => self.keep_rest(payload, deferred),
            Repeated::Armed(deadline) => self.expect_repetition(deadline, news),
            Repeated::Gone | Repeated::Between => {}
        }
    }

    /// The message of a timer that was sent off is refused for good.
    fn reject_send<J: Job>(
        &mut self,
        ticket: Ticket,
        reason: DeadLetterReason,
        message: J::Carried,
        deferred: &mut Deferred<J>,
    ) {
        if let Some(payload) = self.engine.reject_send(ticket.due.key, reason) {
            self.keep_rest(payload, deferred);
        }
        deferred.lose(ticket, reason, Some(message));
    }

    fn keep_rest<J: Job>(&mut self, payload: Payload, deferred: &mut Deferred<J>) {
        if let Some(rest) = J::take_rest(self, payload) {
            deferred.rest = Some(rest);
        }
    }

    /// A timer stays the next of its line, and the line stays for it, while its message is produced.
    fn stay_in_front<J: Queueable>(&mut self, due: Handover<Payload>, posting: Posting) {
        if let Some(line) = self.lines.get(posting.mailbox) {
            line.held = Some((due.key, posting.number));
        }
        if let Some(job) = self.lanes.stored_mut::<J>(due.payload) {
            job.queued_mut().posting = Some(posting);
        }
    }

    /// The message of a timer that [stayed](Self::stay_in_front) has been produced.
    fn leave_front<J: Queueable>(&mut self, due: Handover<Payload>, posting: Posting) {
        if let Some(line) = self.lines.get(posting.mailbox) {
            line.held.take_if(|held| *held == (due.key, posting.number));
        }
        if self.engine.is_making(due.key)
            && let Some(job) = self.lanes.stored_mut::<J>(due.payload)
        {
            job.queued_mut().posting = None;
        }
    }

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
    pub(crate) fn begin<C: Carried>(
        self: &Arc<Self>,
        key: Key,
        number: u64,
    ) -> Option<(C, Acknowledgement, Option<Delivering>)> {
        let mut guard = self.core();
        if guard.posting_of(key) != Some(number) {
            return None;
        }
        let due = guard.engine.begin(key)?;
        if guard.engine.is_making(key) {
            self.begin_job::<Series<C, Queued<C::Message>>>(guard, due, number)
        } else {
            self.begin_job::<Once<C, Queued<C::Message>>>(guard, due, number)
        }
    }

    fn begin_job<J: Queueable>(
        self: &Arc<Self>,
        mut guard: Guard<'_>,
        due: Handover<Payload>,
        number: u64,
    ) -> Option<(J::Carried, Acknowledgement, Option<Delivering>)> {
        let core = &mut *guard;
        let mailbox = core.lanes.stored_mut::<J>(due.payload)?.queued_mut().posting.take()?.mailbox;
        let ticket = Ticket { due, id: self.id_for_letter(core, due.key) };
        let taken = J::take(core, due);
        let was_full = core.lines.pass_token(mailbox, number);
        // A stored message needs no second look under the lock.
        let mut sent_off = None;
        let to_produce = match J::PRODUCES {
            true => taken,
            false => {
                sent_off = taken.map(|taken| J::send_off(J::produce(taken, self, Via::Handler), core, ticket));
                None
            }
        };
        drop(guard);
        // From here on the token is given back by this, whatever becomes of the message.
        let answered = Answered::Token(due.key);
        let acknowledgement = Acknowledgement { service: Arc::clone(self), mailbox, answered };
        if was_full {
            self.ask_to_pump();
        }
        if let Some(taken) = to_produce {
            let produced = J::produce(taken, self, Via::Handler);
            let mut core = self.core();
            let (mut message, mut deferred) = J::send_off(produced, &mut core, ticket);
            if !core.engine.set_off(due.key) {
                deferred.message = deferred.message.or(message.take());
            }
            sent_off = Some((message, deferred));
        }
        let (message, deferred) = sent_off?;
        deferred.discard(self);
        let message = message?;
        let delivering = self.contain(|| self.hand_over(due.key, due.deadline));
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
        match core.line_route(due.payload) {
            Some(route) => drop((route.lose)(self, guard, Ticket { due, id }, reason)),
            None => drop(guard),
        }
        self.ask_to_pump();
    }
}
