//! Keys, and the keys of a request.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

/// A key under which requests are watched, such as a text, a number or a tuple of them. Implemented for every type with
/// these traits.
///
/// `Hash`, `Eq`, `Clone` and `Drop` of a key must neither call the purgatory nor panic.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Key for K {}

/// The keys of a request, created from an array, a `Vec` or an iterator. They are hashed once: to watch many requests
/// under the same many keys, create this once and clone it.
///
/// ```
/// use actix_timers_purgatory::Keys;
///
/// let few = Keys::from(["a", "b"]);
/// let many: Keys<u32> = (1..100).collect();
/// # _ = (few, many);
/// ```
pub struct Keys<K>(Arc<Hashed<K>>);

struct Hashed<K> {
    hash: u64,
    keys: Box<[K]>,
}

impl<K> Keys<K> {
    pub(crate) fn as_slice(&self) -> &[K] {
        &self.0.keys
    }
}

impl<K: Hash, T: Into<Box<[K]>>> From<T> for Keys<K> {
    fn from(keys: T) -> Self {
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let keys = keys.into();
        Self(Arc::new(Hashed { hash: STATE.hash_one(&keys), keys }))
    }
}

impl<K: Hash> FromIterator<K> for Keys<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        keys.into_iter().collect::<Box<[K]>>().into()
    }
}

impl<K> Clone for Keys<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq> PartialEq for Keys<K> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.keys == other.0.keys)
    }
}

impl<K: Eq> Eq for Keys<K> {}

impl<K> Hash for Keys<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl<K: fmt::Debug> fmt::Debug for Keys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.as_slice()).finish()
    }
}
