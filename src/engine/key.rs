//! Keys: names that callers give their timers, unique for each owner and kind of messages.

use std::fmt;
use std::sync::Arc;

use crate::engine::text::Text;

/// The name that a caller gives a timer: a text, a number, or a tuple of them. Cheap to clone; up to 22 bytes of text
/// are kept without an allocation.
///
/// Equal texts are the same key however they were made, equal numbers whatever their integer type; a text never equals
/// a number. Tuples are equal if all their parts are; a tuple in a tuple counts as its parts.
///
/// ```
/// use actix_timers::TimerKey;
///
/// assert_eq!(TimerKey::from("idle"), TimerKey::from(String::from("idle")));
/// assert_eq!(TimerKey::from(7_u8), TimerKey::from(7_i64));
/// assert_ne!(TimerKey::from(7), TimerKey::from("7"));
/// assert_eq!(TimerKey::from(7).to_string(), "7");
/// assert_eq!(TimerKey::from(("order", 7)).to_string(), "order/7");
/// assert_ne!(TimerKey::from(("order", 7)), TimerKey::from("order/7"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(Form);

/// Numbers come before texts, the negative ones first, and texts before tuples.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Negative(i64),
    Natural(u64),
    Text(Text),
    /// None of the parts is a tuple.
    Tuple(Arc<[TimerKey]>),
}

impl TimerKey {
    /// Returns the tuple of the parts of all these.
    pub(crate) fn tuple(keys: impl IntoIterator<Item = Self>) -> Self {
        let keys: Vec<Self> = keys.into_iter().collect();
        Self(Form::Tuple(keys.iter().flat_map(Self::parts).cloned().collect()))
    }

    /// Returns the parts of a tuple, or the key itself.
    fn parts(&self) -> &[TimerKey] {
        match &self.0 {
            Form::Tuple(parts) => parts,
            Form::Text(_) | Form::Natural(_) | Form::Negative(_) => std::slice::from_ref(self),
        }
    }

    /// Returns the text, if the key is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Form::Text(text) => Some(text.as_str()),
            Form::Natural(_) | Form::Negative(_) | Form::Tuple(_) => None,
        }
    }
}

impl fmt::Display for TimerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text.as_str()),
            Form::Natural(number) => number.fmt(f),
            Form::Negative(number) => number.fmt(f),
            Form::Tuple(parts) => parts.iter().enumerate().try_for_each(|(number, part)| {
                f.write_str(if number == 0 { "" } else { "/" })?;
                part.fmt(f)
            }),
        }
    }
}

impl fmt::Debug for TimerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => write!(f, "TimerKey({:?})", text.as_str()),
            Form::Natural(_) | Form::Negative(_) => write!(f, "TimerKey({self})"),
            Form::Tuple(parts) => f.debug_tuple("TimerKey").field(parts).finish(),
        }
    }
}

impl From<&str> for TimerKey {
    fn from(text: &str) -> Self {
        Self(Form::Text(Text::new(text)))
    }
}

impl From<&String> for TimerKey {
    fn from(text: &String) -> Self {
        Self(Form::Text(Text::new(text)))
    }
}

impl From<String> for TimerKey {
    fn from(text: String) -> Self {
        Self(Form::Text(Text::of_string(text)))
    }
}

impl From<Arc<str>> for TimerKey {
    fn from(text: Arc<str>) -> Self {
        Self(Form::Text(Text::shared(text)))
    }
}

impl From<&TimerKey> for TimerKey {
    fn from(key: &TimerKey) -> Self {
        key.clone()
    }
}

macro_rules! from_tuple {
    ($($part:ident)*) => {
        impl<$($part: Into<TimerKey>),*> From<($($part,)*)> for TimerKey {
            #[allow(non_snake_case)]
            fn from(($($part,)*): ($($part,)*)) -> Self {
                Self::tuple([$($part.into()),*])
            }
        }
    };
}

from_tuple!(A);
from_tuple!(A B);
from_tuple!(A B C);
from_tuple!(A B C D);
from_tuple!(A B C D E);

macro_rules! from_natural_numbers {
    ($($number:ty)*) => {
        $(impl From<$number> for TimerKey {
            fn from(number: $number) -> Self {
                Self(Form::Natural(number as u64))
            }
        })*
    };
}

macro_rules! from_integers {
    ($($number:ty)*) => {
        $(impl From<$number> for TimerKey {
            fn from(number: $number) -> Self {
                let number = number as i64;
                Self(if number < 0 { Form::Negative(number) } else { Form::Natural(number.cast_unsigned()) })
            }
        })*
    };
}

from_natural_numbers!(u8 u16 u32 u64 usize);
from_integers!(i8 i16 i32 i64 isize);

/// Serialized as a text, a number or a sequence of these if the format is self-describing, else as a tagged value.
#[cfg(feature = "serde")]
mod serialized {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Form, TimerKey};

    #[derive(Serialize)]
    #[serde(rename = "Form")]
    enum Lent<'k> {
        Text(&'k str),
        Natural(u64),
        Negative(i64),
        Tuple(Vec<Lent<'k>>),
    }

    /// A part is no tuple, so the depth of any input is limited.
    #[derive(Deserialize)]
    #[serde(rename = "Form")]
    enum Owned {
        Text(String),
        Natural(u64),
        Negative(i64),
        Tuple(Vec<OwnedPart>),
    }

    #[derive(Deserialize)]
    #[serde(rename = "Form")]
    enum OwnedPart {
        Text(String),
        Natural(u64),
        Negative(i64),
    }

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text, an integer of 64 bits, or a sequence of these")]
    enum Plain {
        Natural(u64),
        Negative(i64),
        Text(String),
        Tuple(Vec<PlainPart>),
    }

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or an integer of 64 bits")]
    enum PlainPart {
        Natural(u64),
        Negative(i64),
        Text(String),
    }

    macro_rules! from_part {
        ($($part:ident)*) => {
            $(impl From<$part> for TimerKey {
                fn from(part: $part) -> Self {
                    match part {
                        $part::Text(text) => text.into(),
                        $part::Natural(number) => number.into(),
                        $part::Negative(number) => number.into(),
                    }
                }
            })*
        };
    }

    from_part!(OwnedPart PlainPart);

    fn lent(key: &TimerKey) -> Lent<'_> {
        match &key.0 {
            Form::Text(text) => Lent::Text(text.as_str()),
            Form::Natural(number) => Lent::Natural(*number),
            Form::Negative(number) => Lent::Negative(*number),
            Form::Tuple(parts) => Lent::Tuple(parts.iter().map(lent).collect()),
        }
    }

    impl Serialize for TimerKey {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if !serializer.is_human_readable() {
                return lent(self).serialize(serializer);
            }
            match &self.0 {
                Form::Text(text) => serializer.serialize_str(text.as_str()),
                Form::Natural(number) => serializer.serialize_u64(*number),
                Form::Negative(number) => serializer.serialize_i64(*number),
                Form::Tuple(parts) => serializer.collect_seq(parts.iter()),
            }
        }
    }

    impl<'de> Deserialize<'de> for TimerKey {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if !deserializer.is_human_readable() {
                return Ok(match Owned::deserialize(deserializer)? {
                    Owned::Text(text) => text.into(),
                    Owned::Natural(number) => number.into(),
                    Owned::Negative(number) => number.into(),
                    Owned::Tuple(parts) => Self::tuple(parts.into_iter().map(Into::into)),
                });
            }
            Ok(match Plain::deserialize(deserializer)? {
                Plain::Text(text) => text.into(),
                Plain::Natural(number) => number.into(),
                Plain::Negative(number) => number.into(),
                Plain::Tuple(parts) => Self::tuple(parts.into_iter().map(Into::into)),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn equal_texts_and_equal_numbers_are_equal_keys() {
        let mut keys = HashSet::new();
        for key in [
            TimerKey::from("a"),
            TimerKey::from("a".to_owned()),
            TimerKey::from(Arc::<str>::from("a")),
            TimerKey::from(3_u8),
            TimerKey::from(3_isize),
            TimerKey::from(-3_i8),
            TimerKey::from(-3_i64),
            TimerKey::from(u64::MAX),
            TimerKey::from("3"),
            TimerKey::from(("a", 3)),
            TimerKey::from((String::from("a"), TimerKey::from(3_u8))),
            TimerKey::from((("a",), (3,))),
        ] {
            assert_eq!(key, key.clone());
            keys.insert(key);
        }
        assert_eq!(keys.len(), 6);
        let mut sorted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        sorted.sort();
        let expected = [
            "TimerKey(\"3\")",
            "TimerKey(\"a\")",
            "TimerKey(-3)",
            "TimerKey(18446744073709551615)",
            "TimerKey(3)",
            "TimerKey([TimerKey(\"a\"), TimerKey(3)])",
        ];
        assert_eq!(sorted, expected);
    }

    #[test]
    fn different_keys_have_different_hashes() {
        let tuples: [TimerKey; 4] = [("a", 3).into(), ("a", "3").into(), ("a/3",).into(), ("a", 3, 3).into()];
        let mut keys: Vec<TimerKey> = vec!["a".into(), "b".into(), "3".into(), 3.into(), (-3).into(), "a/3".into()];
        keys.extend(tuples);
        let hash_of = |key: &TimerKey| BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        assert_eq!(keys.iter().map(hash_of).collect::<HashSet<u64>>().len(), keys.len());
    }

    #[test]
    fn numbers_come_before_texts_and_these_before_tuples() {
        let mut keys: Vec<TimerKey> =
            vec![("a", 1).into(), "b".into(), 5.into(), "a".into(), (1, "z").into(), (-1).into(), u64::MAX.into()];
        keys.sort();
        let shown: Vec<String> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["-1", "5", "18446744073709551615", "a", "b", "1/z", "a/1"]);
    }
}
