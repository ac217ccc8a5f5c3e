//! Series in lines: repetitions for recipients to whom a mailbox policy applies, and those under tracked delivery.
//!
//! A message is made when it leaves its line; under tracked delivery when its token is handled. Until then its timer is due,
//! and can be cancelled and moved. The steps are those of `series`, the lines those of `dispatch`.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use actix::prelude::SendError;

use super::admission::News;
use super::carried::{Carried, try_send};
use super::dispatch::{InLine, LineRoute, Miss, STOPPED, post_in_lines, send_request};
use super::errand::{Acknowledgement, Answered};
use super::lanes::{Guard, Lanes, Payload, Route};
use super::lines::{Line, Posting};
use super::series::{Begun, Leftovers, Made, Series, Settled, Way, end_series};
use super::series_ways::unload;
use super::subscribers::Lost;
use super::{Core, Service};
use crate::actor::id::TimerId;
use crate::actor::mailbox_policy::MailboxPolicy;
use crate::actor::target::Target;
use crate::actor::trace::Delivering;
use crate::engine::{DeadLetterReason, Ending, Handover, Now, Repeated};

const FULL: DeadLetterReason = DeadLetterReason::MailboxFull;

const START: Now = Now { time: Duration::ZERO, wall: None };

impl Lanes {
    /// The lane for series of messages of type `M` to recipients for whom they may have to wait in a line.
    pub(super) fn of_lined_series<M>(&mut self) -> u32
    where
        M: Carried,
    {
        let lane =
            self.find_or_make::<Series<M>, fn(Posting, Series<M>)>(unload::<M>, type_name::<M::Message>(), || {
                Route::Recipient {
                    post: post_in_lines::<Series<M>>,
                    mailbox: |lanes, payload| lanes.stored::<Series<M>>(payload)?.target.as_ref().map(Target::mailbox),
                    line: Some(LineRoute::of::<Series<M>>()),
                }
            });
        self.discard_in_line::<Series<M>>(lane)
    }
}

impl<M> InLine for Series<M>
where
    M: Carried,
{
    type Message = M::Message;

    /// A mailbox that is full is not closed: the timer goes on.
    const MISS: Option<Miss> = Some(miss::<M>);

    fn target(&self) -> Option<&Target<M::Message>> {
        self.target.as_ref()
    }

    fn posting(&mut self) -> &mut Option<Posting> {
        &mut self.posting
    }

    fn bury<'a>(service: &'a Service, mut guard: Guard<'a>, due: Handover<Payload>) -> Guard<'a> {
        let id = service.id_for_letter(&guard, due.key);
        let (series, lost) = end_series::<M>(&mut guard, due, Ending::DeadLettered(STOPPED), id);
        drop(guard);
        Leftovers { message: None, work: None, series, lost }.discard(service);
        service.core()
    }

    fn send_plain<'a>(
        service: &'a Arc<Service>,
        guard: Guard<'a>,
        mailbox: u64,
        due: Handover<Payload>,
        policy: MailboxPolicy,
    ) -> (Guard<'a>, bool) {
        send_repetition::<M>(service, guard, mailbox, due, policy)
    }
}

/// Makes the message that is next in a line and sends it, unlocking meanwhile. False if it has to wait.
fn send_repetition<'a, M>(
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
    let Some(begun) = Begun::<M>::take(service, core, due) else { return (guard, true) };
    let posting = Posting { mailbox, number: core.lines.number() };
    let target = core.stay_in_front::<M>(due, posting);
    drop(guard);
    let opened = target.as_ref().and_then(Target::open).filter(Recipient::connected);
    let made = match &opened {
        Some(_) => begun.make(service, Way::Post),
        None => begun.give_up(Ending::DeadLettered(STOPPED)),
    };
    let mut guard = service.core();
    let core = &mut *guard;
    let is_wanted = core.leave_front::<M>(due, posting) && made.result.is_ok();
    let kept = core.lines.get(mailbox).filter(|_| is_wanted).and_then(Line::take_sender::<M::Message>);
    let (recipient, spare) = if kept.is_some() { (kept, opened) } else { (opened, None) };
    let has_request = core.lines.get(mailbox).is_some_and(|line| line.has_request);
    let moved;
    match recipient {
        Some(recipient) if is_wanted && has_request => {
            (guard, moved) = try_repetition(service, guard, posting, made, recipient, policy);
        }
        Some(recipient) if is_wanted => {
            (guard, moved) = (request_repetition(service, guard, mailbox, made, recipient), true);
        }
        unused => {
            let settled = made.settle(core, &mut News::default());
            drop(guard);
            settled.leftovers.discard(service);
            service.contain(|| drop(unused));
            (guard, moved) = (service.core(), true);
        }
    }
    drop(guard);
    service.contain(|| drop((target, spare)));
    (service.core(), moved)
}

/// Sends a message as a request, which is always accepted unless the mailbox was closed meanwhile.
fn request_repetition<'a, M>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    mailbox: u64,
    made: Made<M>,
    recipient: Recipient<M::Message>,
) -> Guard<'a>
where
    M: Carried,
{
    let core = &mut *guard;
    let due = made.due;
    let position = core.lines.get(mailbox).map_or(0, |line| {
        line.has_request = true;
        line.send_plain()
    });
    let mut news = News::default();
    let Settled { message, id, leftovers, .. } = made.settle(core, &mut news);
    drop(guard);
    service.tell(news);
    leftovers.discard(service);
    let Some(message) = message else { return service.core() };
    let is_lost = send_request(service, mailbox, position, &due, &recipient, message);
    let mut guard = service.core();
    if is_lost && let Some(payload) = guard.engine.break_off(due.key, STOPPED) {
        service.discard(guard, payload);
        guard = service.core();
    }
    let spare = guard.keep_sender(mailbox, recipient);
    drop(guard);
    let lost = id.filter(|_| is_lost).map(|id| Lost::of::<M>(id, due.deadline, STOPPED, None));
    lost.into_iter().for_each(|lost| service.bury(lost));
    service.contain(|| drop(spare));
    service.core()
}

/// Sends a message if there is room for it. If not, and it is to wait, it stays the next of its line.
fn try_repetition<'a, M>(
    service: &'a Arc<Service>,
    mut guard: Guard<'a>,
    posting: Posting,
    made: Made<M>,
    recipient: Recipient<M::Message>,
    policy: MailboxPolicy,
) -> (Guard<'a>, bool)
where
    M: Carried,
{
    let core = &mut *guard;
    let (due, id, mailbox) = (made.due, made.id, posting.mailbox);
    let now = made.result.as_ref().map_or(START, |ready| ready.now);
    let (message, leftovers) = made.send_off(core);
    // The books are closed before the message can be seen.
    core.engine.depart_repetition(due.key);
    if let Some(line) = core.lines.get(mailbox) {
        line.send_plain();
    }
    drop(guard);
    leftovers.discard(service);
    let Some(message) = message else { return (service.core(), true) };
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
    let (mut series, mut lost, mut is_held) = (None, None, false);
    match sent {
        Ok(()) => series = core.arrive::<M>(due, now, &mut news),
        Err(SendError::Full(message)) if policy != MailboxPolicy::Drop && !is_closed => {
            core.engine.turn_back_repetition(due.key);
            if let Some(series) = core.lanes.stored_mut::<Series<M>>(due.payload) {
                series.keep(message);
                series.posting = Some(posting);
            }
            core.hold(mailbox, due.key, posting.number, time);
            is_held = true;
        }
        Err(SendError::Full(message)) if !is_closed => {
            series = core.arrive::<M>(due, now, &mut news);
            core.engine.bounce(due.key, FULL);
            lost = Some((FULL, message));
        }
        Err(error) => {
            let is_full = matches!(error, SendError::Full(_));
            let reason = if is_full { DeadLetterReason::ServiceStopped } else { STOPPED };
            let payload = core.engine.refuse_repetition(due.key, reason);
            series = payload.and_then(|payload| core.lanes.take::<Series<M>>(payload));
            lost = Some((reason, error.into_inner()));
        }
    }
    let spare = core.keep_sender(mailbox, recipient);
    drop(guard);
    service.tell(news);
    Leftovers { message: None, work: None, series, lost: None }.discard(service);
    service.bury_repetition(id, due, lost);
    service.contain(|| drop(spare));
    (service.core(), !is_held)
}

/// See [`Miss`].
fn miss<M>(service: &Service, mut guard: Guard<'_>, due: Handover<Payload>)
where
    M: Carried,
{
    let Some(begun) = Begun::<M>::take(service, &mut guard, due) else { return };
    drop(guard);
    let made = begun.make(service, Way::Post);
    let mut news = News::default();
    let mut core = service.core();
    let Settled { message, id, leftovers, .. } = made.settle(&mut core, &mut news);
    if message.is_some() {
        core.engine.bounce(due.key, FULL);
    }
    core.published.ask_to_publish();
    drop(core);
    service.tell(news);
    leftovers.discard(service);
    service.bury_repetition(id, due, message.map(|message| (FULL, message)));
}

impl Core {
    /// A timer stays the next of its line, and the line stays for it, while its message is made. Returns its target.
    fn stay_in_front<M>(&mut self, due: Handover<Payload>, posting: Posting) -> Option<Target<M::Message>>
    where
        M: Carried,
    {
        if let Some(line) = self.lines.get(posting.mailbox) {
            line.held = Some((due.key, posting.number));
        }
        let series = self.lanes.stored_mut::<Series<M>>(due.payload)?;
        series.posting = Some(posting);
        series.target.clone()
    }

    /// The message of a timer that [stayed](Self::stay_in_front) has been made. False if it is not wanted any more.
    fn leave_front<M>(&mut self, due: Handover<Payload>, posting: Posting) -> bool
    where
        M: Carried,
    {
        if let Some(line) = self.lines.get(posting.mailbox) {
            line.held.take_if(|held| *held == (due.key, posting.number));
        }
        let is_wanted = self.engine.is_making(due.key);
        if is_wanted && let Some(series) = self.lanes.stored_mut::<Series<M>>(due.payload) {
            series.posting = None;
        }
        is_wanted
    }

    /// A repetition that departed has arrived, or will never. Returns what is left of its timer if that has ended.
    fn arrive<M>(&mut self, due: Handover<Payload>, now: Now, news: &mut News) -> Option<Series<M>>
    where
        M: Carried,
    {
        match self.engine.arrive_repetition(due.key, now) {
            Repeated::Last(payload) => return self.lanes.take(payload),
            Repeated::Armed(deadline) => self.expect_repetition(deadline, news),
            Repeated::Gone | Repeated::Between => {}
        }
        None
    }
}

impl Service {
    /// The token of a repetition is handled: makes the message, unless the timer is cancelled meanwhile.
    pub(super) fn begin_repetition<M>(
        self: &Arc<Self>,
        mut guard: Guard<'_>,
        due: Handover<Payload>,
        number: u64,
    ) -> Option<(M, Acknowledgement, Option<Delivering>)>
    where
        M: Carried,
    {
        let core = &mut *guard;
        let mailbox = core.lanes.stored_mut::<Series<M>>(due.payload)?.posting.take()?.mailbox;
        let begun = Begun::<M>::take(self, core, due);
        let was_full = core.lines.pass_token(mailbox, number);
        drop(guard);
        // From here on the token is given back by this, whatever becomes of the message.
        let answered = Answered::Token(due.key);
        let acknowledgement = Acknowledgement { service: Arc::clone(self), mailbox, answered };
        if was_full {
            self.ask_to_pump();
        }
        let made = begun?.make(self, Way::Handler);
        let mut core = self.core();
        let (message, leftovers) = made.send_off(&mut core);
        let is_wanted = core.engine.set_off(due.key);
        drop(core);
        leftovers.discard(self);
        let message = message.filter(|_| is_wanted)?;
        let delivering = self.contain(|| self.hand_over(due.key, due.deadline));
        Some((message, acknowledgement, delivering))
    }

    fn bury_repetition<M: Carried>(
        &self,
        id: Option<TimerId>,
        due: Handover<Payload>,
        lost: Option<(DeadLetterReason, M)>,
    ) {
        match (id, lost) {
            (Some(id), Some((reason, message))) => self.bury(Lost::of(id, due.deadline, reason, Some(message))),
            (_, lost) => drop(self.contain(|| drop(lost))),
        }
    }
}
