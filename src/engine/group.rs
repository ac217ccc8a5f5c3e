//! Groups: timers that are listed and cancelled together.

use std::borrow::Cow;
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
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(from = "String"))]
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

impl<T: AsRef<str> + ?Sized> From<&T> for TimerGroup {
    fn from(text: &T) -> Self {
        Self(Text::new(text.as_ref()))
    }
}

impl From<String> for TimerGroup {
    fn from(text: String) -> Self {
        Self(Text::new(&text))
    }
}

impl From<Box<str>> for TimerGroup {
    fn from(text: Box<str>) -> Self {
        Self(Text::new(&text))
    }
}

impl From<Cow<'_, str>> for TimerGroup {
    fn from(text: Cow<'_, str>) -> Self {
        Self(Text::new(&text))
    }
}

impl From<Arc<str>> for TimerGroup {
    fn from(text: Arc<str>) -> Self {
        Self(Text::shared(&text))
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

#[cfg(test)]
mod tests;
