//! Short texts that are cheap to make and to clone: keys and groups.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The length in bytes up to which a text is kept in place. A [`Text`] takes 24 bytes, as a `String` does.
const SHORT: usize = 22;

/// A text; a short one without an allocation.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Short { length: u8, bytes: [u8; SHORT] },
    Shared(Arc<str>),
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        Self::short(text).unwrap_or_else(|| Self::Shared(text.into()))
    }

    pub(crate) fn shared(text: &Arc<str>) -> Self {
        Self::short(text).unwrap_or_else(|| Self::Shared(Arc::clone(text)))
    }

    fn short(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self::Short { length: text.len() as u8, bytes })
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length).min(SHORT)],
            Self::Shared(text) => text.as_bytes(),
        }
    }

    /// Returns the text. Comparisons and hashes use its bytes, since a short one has to be validated here.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Short { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of `str`, which is that of the bytes.
impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_bytes().hash(hasher);
    }
}

#[cfg(test)]
mod tests;
