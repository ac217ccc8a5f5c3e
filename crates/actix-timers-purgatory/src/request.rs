//! A waiting request, and its end.

use std::sync::Arc;
use std::task::{Poll, Waker};

use actix_timers::TimerId;
use actix_timers::integration::contain;

use crate::attempt::{Answer, Attempt, End, Remains};
use crate::keys::Key;
use crate::purgatory::Shared;
use crate::watchers::Group;

/// A request, whatever its keys, value and condition.
pub(crate) trait Watched: Send + Sync {
    /// Its place in the order of all requests.
    fn number(&self) -> u64;
    /// Tries its condition. Returns whether this call has completed it.
    fn try_now(&self) -> bool;
    /// Ends it for another reason. Returns whether this call has ended it.
    fn end(&self, end: End) -> bool;
}

/// A request with this value and condition, whatever its keys.
pub(crate) trait Answering<V, C>: Watched {
    fn poll(&self, waker: &Waker) -> Poll<Answer<V, C>>;
}

pub(crate) struct Request<K, V, C> {
    pub(crate) shared: Arc<Shared<K>>,
    pub(crate) number: u64,
    pub(crate) attempt: Attempt<V, C, Registration<K>>,
}

/// Its watchers and its timer.
pub(crate) struct Registration<K> {
    pub(crate) group: Arc<Group<K>>,
    pub(crate) timer: TimerId,
}

impl<K: Key, V, C: FnMut() -> Option<V>> Request<K, V, C> {
    /// Disposes of the remains of the request, if this call has ended it; returns the end.
    fn ended(&self, remains: Option<Remains<C, Registration<K>>>) -> Option<End> {
        let Remains { end, held, waker, condition } = remains?;
        if let Some(registration) = held {
            self.shared.withdraw(&registration, self.number, end);
        }
        self.shared.release_place();
        self.shared.meters.count(end);
        _ = contain(|| drop(condition));
        if let Some(waker) = waker.filter(|_| end != End::Dropped) {
            _ = contain(|| waker.wake());
        }
        Some(end)
    }
}

impl<K: Key, V: Send, C: FnMut() -> Option<V> + Send> Watched for Request<K, V, C> {
    fn number(&self) -> u64 {
        self.number
    }

    fn try_now(&self) -> bool {
        self.ended(self.attempt.try_now()) == Some(End::Completed)
    }

    fn end(&self, end: End) -> bool {
        self.ended(self.attempt.end(end)).is_some()
    }
}

impl<K: Key, V: Send, C: FnMut() -> Option<V> + Send> Answering<V, C> for Request<K, V, C> {
    fn poll(&self, waker: &Waker) -> Poll<Answer<V, C>> {
        self.attempt.poll(waker)
    }
}
