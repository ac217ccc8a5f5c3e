//! Subscribers to dead letters.
//!
//! The engine counts dead letters with or without subscribers. Without any, a lost message costs one read of a flag,
//! and nothing is looked up or kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix::{Recipient, WeakRecipient};

use crate::model::dead_letter::{DeadLetter, DeadLetterEvent};
use crate::model::id::TimerId;
use crate::model::mailbox_id::MailboxId;
use crate::service::state::{Service, State};
use crate::timing::Key;
use crate::trace;

/// The subscribers. Locked only to read or change the list; no user code runs meanwhile.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// Whether the list has entries.
    any: AtomicBool,
    /// Whether dead letters are traced, as of the last query.
    traced: AtomicBool,
    list: Mutex<Vec<Subscriber>>,
}

struct Subscriber {
    recipient: WeakRecipient<DeadLetter>,
    /// Unique as long as this is held.
    mailbox: Option<MailboxId>,
}

impl Subscribers {
    fn change<R>(&self, change: impl FnOnce(&mut Vec<Subscriber>) -> R) -> R {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut list);
        self.any.store(!list.is_empty(), Ordering::Release);
        result
    }

    /// Returns the recipients that can be reached, and forgets the others.
    fn reachable(&self) -> Vec<Recipient<DeadLetter>> {
        let mut closed = Vec::new();
        let open = self.change(|list| {
            let mut open = Vec::with_capacity(list.len());
            list.retain(|subscriber| match subscriber.recipient.upgrade() {
                Some(recipient) if recipient.connected() => {
                    open.push(recipient);
                    true
                }
                // It may be the last address, so it is not dropped while the list is locked.
                recipient => {
                    closed.push(recipient);
                    false
                }
            });
            open
        });
        drop(closed);
        open
    }
}

impl Service {
    /// Subscribes `recipient` to dead letters, and forgets subscribers that have stopped.
    pub(crate) fn subscribe(&self, recipient: &Recipient<DeadLetter>) {
        self.drop_contained(self.subscribers.reachable());
        let mailbox = MailboxId::of(recipient);
        let subscriber = Subscriber { recipient: recipient.downgrade(), mailbox };
        self.subscribers.change(|list| {
            if list.iter().all(|known| known.mailbox != mailbox) {
                list.push(subscriber);
            }
        });
    }

    /// Whether dead letters have a subscriber.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.subscribers.any.load(Ordering::Acquire) || self.subscribers.traced.load(Ordering::Relaxed)
    }

    /// Finds out whether dead letters are traced. Not to be called under the lock, since the tracing subscriber is
    /// foreign code.
    pub(crate) fn update_dead_letter_tracing(&self) {
        if self.settings.internal {
            return;
        }
        if let Some(traced) = self.contain(trace::reads_dead_letters) {
            self.subscribers.traced.store(traced, Ordering::Relaxed);
        }
    }

    /// Returns the id of a pending timer whose message may get lost, if there is a subscriber.
    pub(crate) fn id_for_dead_letter(&self, state: &State, key: Key) -> Option<TimerId> {
        self.has_subscribers().then(|| self.id_of(state, key))
    }

    /// Sends a lost message, which is counted already, to the subscribers. Not to be called under the lock.
    pub(crate) fn emit_dead_letter(&self, lost: DeadLetterEvent) {
        // No dead letters about dead letters: they would never end.
        let is_letter = lost.message.as_ref().is_some_and(|message| message.is::<DeadLetter>());
        if is_letter {
            self.drop_contained(lost);
            return;
        }
        // The clock may be user code.
        self.contain(|| {
            let now = self.clock.now();
            self.report_dead_letter(now, &lost);
            let DeadLetterEvent { id, deadline, reason, message_type, message, .. } = lost;
            let deadline = deadline.map_or(now, |deadline| self.tick.time_of(deadline));
            let (overdue, remaining) = (now.saturating_sub(deadline), deadline.saturating_sub(now));
            let timer = self.name.clone();
            let message = Arc::new(Mutex::new(message));
            let letter = DeadLetter { id, timer, reason, overdue, remaining, message_type, message };
            for recipient in self.subscribers.reachable() {
                self.contain(|| drop(recipient.try_send(letter.clone())));
                self.drop_contained(recipient);
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
