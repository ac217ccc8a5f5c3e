//! The timers that a call by key stands for.

use std::any::TypeId;

use crate::engine::TimerKey;
use crate::model::closure::AnyClosure;

/// The timers that a call by key stands for: all with the key, or those with messages of one type.
///
/// Timers with messages of different types may have equal keys; see [`TimerOptions::key`](crate::TimerOptions::key). A
/// key alone selects them all.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{KeySelector, TimerContext, TimerOptions};
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Check;
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Reconnect;
///
/// struct Peers;
///
/// impl Actor for Peers {
///     type Context = Context<Self>;
///
///     fn started(&mut self, ctx: &mut Self::Context) {
///         let of_peer = TimerOptions::new().key(7);
///         ctx.timer(of_peer.clone()).schedule(Duration::from_secs(1), Check);
///         ctx.timer(of_peer).schedule(Duration::from_secs(5), Reconnect);
///         assert!(ctx.cancel_key(KeySelector::of::<Check>(7)).is_cancelled());
///         assert!(ctx.actor_timers().get(KeySelector::of::<Check>(7)).is_none());
///         assert!(ctx.cancel_key(7).is_cancelled());
///         # System::current().stop();
///     }
/// }
/// # impl Handler<Check> for Peers { type Result = (); fn handle(&mut self, _: Check, _: &mut Context<Self>) {} }
/// # impl Handler<Reconnect> for Peers { type Result = (); fn handle(&mut self, _: Reconnect, _: &mut Context<Self>) {} }
/// # let system = System::new();
/// # let _peers = system.block_on(async { Peers.start() });
/// # system.run().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySelector {
    pub(crate) key: TimerKey,
    /// `None` for all types.
    pub(crate) key_type: Option<TypeId>,
}

impl KeySelector {
    /// Selects the timers with this key whose messages are of type `M`. Not those with a
    /// [shared key](crate::TimerOptions::shared_key).
    pub fn of<M: 'static>(key: impl Into<TimerKey>) -> Self {
        Self { key: key.into(), key_type: Some(TypeId::of::<M>()) }
    }

    /// Selects the closures with this key.
    pub fn closure(key: impl Into<TimerKey>) -> Self {
        Self::of::<AnyClosure>(key)
    }
}

impl<K: Into<TimerKey>> From<K> for KeySelector {
    fn from(key: K) -> Self {
        Self { key: key.into(), key_type: None }
    }
}
