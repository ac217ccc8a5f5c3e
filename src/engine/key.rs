//! Keys: names that callers give their timers, unique for each owner and kind of messages.

use std::borrow::Cow;
use std::fmt;
use std::num::ParseIntError;
use std::sync::Arc;

use uuid::Uuid;

use crate::engine::text::Text;

/// The name that a caller gives a timer: a text, a number, a [`Uuid`], or a tuple of them. Cheap to clone; all but tuples
/// and texts of more than 22 bytes are kept without an allocation.
///
/// It is made from texts (`str`, `String`, and a `str` in a `Box`, `Arc` or `Cow`), primitive integers and `bool` (as
/// the text `true` or `false`), from references to them, and from types with a [derived](macro@crate::TimerKey) key.
///
/// Equal texts are the same key however they were made, equal numbers whatever their integer type; a text never equals
/// a number, and a UUID neither. Tuples are equal if all their parts are; a tuple in a tuple counts as its parts.
///
/// ```
/// use actix_timers::TimerKey;
///
/// assert_eq!(TimerKey::from("idle"), TimerKey::from(String::from("idle")));
/// assert_eq!(TimerKey::from(7_u8), TimerKey::from(7_i128));
/// assert_ne!(TimerKey::from(7), TimerKey::from("7"));
/// assert_eq!(TimerKey::from(7).to_string(), "7");
/// assert_eq!(TimerKey::from(("order", 7)).to_string(), "order/7");
/// assert_ne!(TimerKey::from(("order", 7)), TimerKey::from("order/7"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(Form);

/// Numbers come first, by size, then UUIDs, texts and tuples.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// The high and the low half of a number below those of `Negative`.
    FarNegative(i64, u64),
    Negative(i64),
    Natural(u64),
    /// The halves of a number above those of `Natural`. A `u128` would make the key larger by its alignment.
    FarNatural(u64, u64),
    Uuid(Uuid),
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
        if let Form::Tuple(parts) = &self.0 { parts } else { std::slice::from_ref(self) }
    }

    /// Returns the number that a text shows.
    pub(crate) fn of_number(text: &str) -> Result<Self, ParseIntError> {
        text.parse::<u128>().map(Self::from).or_else(|_| text.parse::<i128>().map(Self::from))
    }

    /// Returns the text, if the key is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Form::Text(text) = &self.0 { Some(text.as_str()) } else { None }
    }
}

impl fmt::Display for TimerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text.as_str()),
            Form::Natural(number) => number.fmt(f),
            Form::Negative(number) => number.fmt(f),
            Form::FarNatural(high, low) => (u128::from(*high) << 64 | u128::from(*low)).fmt(f),
            Form::FarNegative(high, low) => (i128::from(*high) << 64 | i128::from(*low)).fmt(f),
            Form::Uuid(uuid) => uuid.fmt(f),
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
            Form::Tuple(parts) => f.debug_tuple("TimerKey").field(parts).finish(),
            _ => write!(f, "TimerKey({self})"),
        }
    }
}

/// A value whose reference becomes a key. Derived keys implement it.
pub trait ToKey {
    /// Returns the key.
    fn to_key(&self) -> TimerKey;
}

/// Keys that are made of values of type `K`, which has no `From` of its own.
///
/// A type that is no key fails here, so that the compiler reports this text. Of bounds on one type it would report the
/// outermost, `Into`; therefore `K` is a parameter.
#[diagnostic::on_unimplemented(
    message = "`{K}` cannot be the key of a timer",
    label = "no text, number, `bool`, `Uuid`, or tuple of them",
    note = "a struct or an enum of yours becomes a key with `#[derive(actix_timers::TimerKey)]`"
)]
pub trait MadeOf<K> {
    fn made_of(value: K) -> Self;
}

impl<K> From<K> for TimerKey
where
    Self: MadeOf<K>,
{
    fn from(value: K) -> Self {
        Self::made_of(value)
    }
}

#[diagnostic::do_not_recommend]
impl<K: ToKey + ?Sized> MadeOf<&K> for TimerKey {
    fn made_of(value: &K) -> Self {
        value.to_key()
    }
}

impl<K: ToKey + ?Sized> ToKey for &K {
    fn to_key(&self) -> TimerKey {
        (**self).to_key()
    }
}

impl ToKey for TimerKey {
    fn to_key(&self) -> TimerKey {
        self.clone()
    }
}

impl ToKey for str {
    fn to_key(&self) -> TimerKey {
        TimerKey(Form::Text(Text::new(self)))
    }
}

macro_rules! from_values {
    ($($type:ty: $value:ident => $form:expr;)*) => {
        $(impl ToKey for $type {
            fn to_key(&self) -> TimerKey {
                let $value = self;
                TimerKey($form)
            }
        }

        impl From<$type> for TimerKey {
            fn from(value: $type) -> Self {
                value.to_key()
            }
        })*
    };
}

from_values! {
    String: text => Form::Text(Text::new(text));
    Box<str>: text => Form::Text(Text::new(text));
    Cow<'_, str>: text => Form::Text(Text::new(text));
    Arc<str>: text => Form::Text(Text::shared(text));
    bool: value => Form::Text(Text::new(if *value { "true" } else { "false" }));
    Uuid: uuid => Form::Uuid(*uuid);
    u8: number => Form::Natural((*number).into());
    u16: number => Form::Natural((*number).into());
    u32: number => Form::Natural((*number).into());
    u64: number => Form::Natural(*number);
    usize: number => Form::Natural(*number as u64);
    i8: number => of_integer((*number).into());
    i16: number => of_integer((*number).into());
    i32: number => of_integer((*number).into());
    i64: number => of_integer(*number);
    isize: number => of_integer(*number as i64);
    u128: number => match u64::try_from(*number) {
        Ok(number) => Form::Natural(number),
        Err(_) => Form::FarNatural((*number >> 64) as u64, *number as u64),
    };
    i128: number => match (u128::try_from(*number), i64::try_from(*number)) {
        (Ok(number), _) => number.to_key().0,
        (_, Ok(number)) => Form::Negative(number),
        _ => Form::FarNegative((*number >> 64) as i64, *number as u64),
    };
}

fn of_integer(number: i64) -> Form {
    if number < 0 { Form::Negative(number) } else { Form::Natural(number.cast_unsigned()) }
}

macro_rules! from_tuple {
    ($($part:ident)*) => {
        impl<$($part: Into<TimerKey>),*> MadeOf<($($part,)*)> for TimerKey {
            #[allow(non_snake_case)]
            fn made_of(($($part,)*): ($($part,)*)) -> Self {
                Self::tuple([$($part.into()),*])
            }
        }

        impl<$($part: ToKey),*> ToKey for ($($part,)*) {
            #[allow(non_snake_case)]
            fn to_key(&self) -> TimerKey {
                let ($($part,)*) = self;
                TimerKey::tuple([$($part.to_key()),*])
            }
        }
    };
}

from_tuple!(A);
from_tuple!(A B);
from_tuple!(A B C);
from_tuple!(A B C D);
from_tuple!(A B C D E);

/// Serialized as a text, a number or a sequence of these if the format is self-describing, else as a tagged value. A
/// number of more than 64 bits and a UUID are always tagged.
#[cfg(feature = "serde")]
mod serialized {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use uuid::Uuid;

    use super::{Form, TimerKey};

    #[derive(Serialize)]
    #[serde(rename = "Form")]
    enum Lent<'k> {
        Text(&'k str),
        Natural(u64),
        Negative(i64),
        #[serde(rename = "number")]
        Number(String),
        #[serde(rename = "uuid")]
        Uuid(Uuid),
        Tuple(Vec<Lent<'k>>),
    }

    #[derive(Deserialize)]
    #[serde(rename = "Form")]
    enum Owned<T> {
        Text(String),
        Natural(u64),
        Negative(i64),
        #[serde(rename = "number")]
        Number(Number),
        #[serde(rename = "uuid")]
        Uuid(Uuid),
        Tuple(T),
    }

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a text, an integer of 64 bits, `number` or `uuid` with a text, or a sequence of these"
    )]
    enum Plain<T> {
        Natural(u64),
        Negative(i64),
        Text(String),
        Tagged(Owned<Never>),
        Tuple(T),
    }

    /// The tuple in a part: a part is none, so the depth of any input is limited.
    #[derive(Deserialize)]
    enum Never {}

    struct Number(TimerKey);

    impl<'de> Deserialize<'de> for Number {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            TimerKey::of_number(&text).map(Self).map_err(D::Error::custom)
        }
    }

    impl<T> Owned<T> {
        fn key(self, of_tuple: impl FnOnce(T) -> TimerKey) -> TimerKey {
            match self {
                Self::Text(text) => text.into(),
                Self::Natural(number) => number.into(),
                Self::Negative(number) => number.into(),
                Self::Number(Number(key)) => key,
                Self::Uuid(uuid) => uuid.into(),
                Self::Tuple(parts) => of_tuple(parts),
            }
        }
    }

    impl<T> Plain<T> {
        fn key(self, of_tuple: impl FnOnce(T) -> TimerKey) -> TimerKey {
            match self {
                Self::Text(text) => text.into(),
                Self::Natural(number) => number.into(),
                Self::Negative(number) => number.into(),
                Self::Tagged(part) => part.key(|never| match never {}),
                Self::Tuple(parts) => of_tuple(parts),
            }
        }
    }

    fn lent(key: &TimerKey) -> Lent<'_> {
        match &key.0 {
            Form::Text(text) => Lent::Text(text.as_str()),
            Form::Natural(number) => Lent::Natural(*number),
            Form::Negative(number) => Lent::Negative(*number),
            Form::FarNegative(..) | Form::FarNatural(..) => Lent::Number(key.to_string()),
            Form::Uuid(uuid) => Lent::Uuid(*uuid),
            Form::Tuple(parts) => Lent::Tuple(parts.iter().map(lent).collect()),
        }
    }

    impl Serialize for TimerKey {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match &self.0 {
                _ if !serializer.is_human_readable() => lent(self).serialize(serializer),
                Form::Text(text) => serializer.serialize_str(text.as_str()),
                Form::Natural(number) => serializer.serialize_u64(*number),
                Form::Negative(number) => serializer.serialize_i64(*number),
                Form::Tuple(parts) => serializer.collect_seq(parts.iter()),
                _ => lent(self).serialize(serializer),
            }
        }
    }

    impl<'de> Deserialize<'de> for TimerKey {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if !deserializer.is_human_readable() {
                let owned: Owned<Vec<Owned<Never>>> = Deserialize::deserialize(deserializer)?;
                return Ok(
                    owned.key(|parts| Self::tuple(parts.into_iter().map(|part| part.key(|never| match never {}))))
                );
            }
            let plain: Plain<Vec<Plain<Never>>> = Deserialize::deserialize(deserializer)?;
            Ok(plain.key(|parts| Self::tuple(parts.into_iter().map(|part| part.key(|never| match never {})))))
        }
    }
}

#[cfg(test)]
mod tests;
