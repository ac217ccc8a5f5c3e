//! Groups: timers that are listed and cancelled together.

use std::fmt;
use std::sync::Arc;

use crate::engine::text::Text;

/// The name of a group of timers. Cheap to clone; up to 22 bytes are kept without an allocation.
///
/// ```
/// use actix_timers::TimerGroup;
///
/// assert_eq!(TimerGroup::from("campaign-7"), TimerGroup::from(format!("campaign-{}", 7)));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerGroup(Text);

impl TimerGroup {
    /// Returns the name as a text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for TimerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TimerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerGroup({:?})", self.as_str())
    }
}

impl From<&str> for TimerGroup {
    fn from(text: &str) -> Self {
        Self(Text::new(text))
    }
}

impl From<&String> for TimerGroup {
    fn from(text: &String) -> Self {
        Self(Text::new(text))
    }
}

impl From<String> for TimerGroup {
    fn from(text: String) -> Self {
        Self(Text::of_string(text))
    }
}

impl From<Arc<str>> for TimerGroup {
    fn from(text: Arc<str>) -> Self {
        Self(Text::shared(text))
    }
}

impl From<&TimerGroup> for TimerGroup {
    fn from(group: &TimerGroup) -> Self {
        group.clone()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for TimerGroup {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for TimerGroup {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn groups_compare_and_hash_by_their_names() {
        let hash_of = |group: &TimerGroup| BuildHasherDefault::<DefaultHasher>::default().hash_one(group);
        let forms = [TimerGroup::from("a"), TimerGroup::from("a".to_owned()), TimerGroup::from(Arc::<str>::from("a"))];
        let other = TimerGroup::from("b");
        for group in &forms {
            assert_eq!((group, hash_of(group)), (&forms[0], hash_of(&forms[0])));
            assert_ne!(group, &other);
            assert_ne!(hash_of(group), hash_of(&other), "different groups spread over the tables");
            assert!(group < &other);
        }
    }

    #[test]
    fn a_group_is_shown_by_its_name() {
        let group = TimerGroup::from("campaign \"7\"");
        assert_eq!(
            (group.to_string(), format!("{group:?}")),
            ("campaign \"7\"".into(), r#"TimerGroup("campaign \"7\"")"#.into())
        );
    }
}
