//! The identity of an actor: its mailbox, whatever its message types.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use actix::{Actor, Addr, Recipient, WeakAddr, WeakRecipient};

use crate::model::mailbox_id::MailboxId;
use crate::model::secret::Secret;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;

/// The identity of an actor, independent of message types. Created from a reference to an `Addr`, a `Recipient`, a
/// `WeakAddr`, a `WeakRecipient` or a [`Target`]; equal if they have the same mailbox.
///
/// It does not keep the actor alive. Created from a weak reference to an actor that is gone, it names no actor.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::ActorId;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
///
/// # System::new().block_on(async {
/// let customer = Customer.start();
/// assert_eq!(ActorId::from(&customer), ActorId::from(&customer.downgrade()));
/// assert_ne!(ActorId::from(&customer), ActorId::from(&Customer.start()));
/// # });
/// ```
#[derive(Clone)]
pub struct ActorId {
    mailbox: Option<MailboxId>,
    /// Keeps the address of the mailbox from being reused.
    _hold: Arc<dyn Any + Send + Sync>,
}

impl ActorId {
    fn new(mailbox: Option<MailboxId>, hold: Arc<dyn Any + Send + Sync>) -> Self {
        Self { mailbox, _hold: hold }
    }

    /// Returns the tag of the actor, as shown in lists; `None` if this names no actor.
    pub fn tag(&self) -> Option<ActorTag> {
        self.mailbox.map(ActorTag::of)
    }

    /// Returns the mailbox, if there is an actor.
    pub(crate) const fn mailbox(&self) -> Option<MailboxId> {
        self.mailbox
    }
}

impl PartialEq for ActorId {
    fn eq(&self, other: &Self) -> bool {
        self.mailbox == other.mailbox
    }
}

impl Eq for ActorId {}

impl Hash for ActorId {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.mailbox.hash(hasher);
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag() {
            Some(tag) => write!(f, "ActorId({tag})"),
            None => f.write_str("ActorId(none)"),
        }
    }
}

/// A printable stand-in for an actor, in a [`TimerInfo`](crate::TimerInfo) and in logs. It prints and parses as sixteen
/// hexadecimal digits.
///
/// It reveals no memory address, and differs between runs of the program. It keeps nothing alive: after an actor is
/// gone and all its addresses are dropped, another actor may get its tag.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::{ActorId, ActorTag, TimerFilter};
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
///
/// # System::new().block_on(async {
/// let customer = Customer.start();
/// let tag = ActorId::from(&customer).tag().unwrap();
/// assert_eq!(tag.to_string().parse::<ActorTag>()?, tag);
/// let theirs = TimerFilter::new().actor_tag(tag);
/// # drop(theirs);
/// # Ok::<(), actix_timers::ParseActorTagError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorTag(u64);

/// The error of parsing a text that is not an [`ActorTag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an actor tag: it has sixteen hexadecimal digits")]
pub struct ParseActorTagError;

impl ActorTag {
    pub(crate) fn of(mailbox: MailboxId) -> Self {
        static KEY: LazyLock<Secret> = LazyLock::new(Secret::new);
        Self(KEY.hash(mailbox.number()))
    }
}

impl fmt::Display for ActorTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ActorTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorTag({self})")
    }
}

impl FromStr for ActorTag {
    type Err = ParseActorTagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_tag = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).map_err(|_| ParseActorTagError)?;
        if is_tag { Ok(Self(number)) } else { Err(ParseActorTagError) }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ActorTag {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ActorTag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<A: Actor> From<&Addr<A>> for ActorId {
    fn from(addr: &Addr<A>) -> Self {
        Self::new(MailboxId::of(addr), Arc::new(addr.downgrade()))
    }
}

impl<A: Actor> From<&WeakAddr<A>> for ActorId {
    fn from(addr: &WeakAddr<A>) -> Self {
        Self::new(addr.upgrade().and_then(|addr| MailboxId::of(&addr)), Arc::new(addr.clone()))
    }
}

impl<M: TimerMessage> From<&Recipient<M>> for ActorId {
    fn from(recipient: &Recipient<M>) -> Self {
        Self::from(&Target::from(recipient))
    }
}

impl<M: TimerMessage> From<&WeakRecipient<M>> for ActorId {
    fn from(recipient: &WeakRecipient<M>) -> Self {
        Self::new(MailboxId::of_weak(recipient), Arc::new(recipient.clone()))
    }
}

impl<M: TimerMessage> From<&Target<M>> for ActorId {
    fn from(target: &Target<M>) -> Self {
        Self::new(target.facts().mailbox, target.weak_hold())
    }
}

impl From<&ActorId> for ActorId {
    fn from(actor: &ActorId) -> Self {
        actor.clone()
    }
}
