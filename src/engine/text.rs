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

    pub(crate) fn of_string(text: String) -> Self {
        Self::short(&text).unwrap_or_else(|| Self::Shared(text.into()))
    }

    pub(crate) fn shared(text: Arc<str>) -> Self {
        Self::short(&text).unwrap_or(Self::Shared(text))
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
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn texts_of_all_lengths_are_equal_however_they_were_made() {
        let hash_of = |text: &Text| BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        let mut all: Vec<Text> = Vec::new();
        for length in 0..50 {
            let text: String = "aß€𝄞".chars().cycle().take(length).collect();
            let forms = [Text::new(&text), Text::of_string(text.clone()), Text::shared(text.as_str().into())];
            for form in &forms {
                assert_eq!((form, form.as_str(), hash_of(form)), (&forms[0], text.as_str(), hash_of(&forms[0])));
                assert_eq!(matches!(form, Text::Short { .. }), text.len() <= SHORT);
                assert!(all.iter().all(|other| other < form && hash_of(other) != hash_of(form)));
            }
            all.push(forms[0].clone());
        }
        assert_eq!(size_of::<Text>(), 24);
    }
}
