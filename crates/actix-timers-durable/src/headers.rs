//! Free headers of a durable timer: names and values that travel beside its message.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use actix_timers::integration::Shown;

use super::routes::is_route_name;

/// Values by name.
type Map = BTreeMap<Box<str>, Box<str>>;

/// Headers of a durable timer: texts by name, for example the context of a trace, in the order of their names.
///
/// ```
/// use actix_timers_durable::Headers;
///
/// let headers = Headers::of([("traceparent", "00-4bf9-00f0-01"), ("tenant", "7"), ("tenant", "8")])?;
/// assert_eq!(headers.get("tenant"), Some("8"), "a repeated name replaces the earlier value");
/// assert_eq!(headers.len(), 2);
/// # Ok::<(), actix_timers_durable::HeaderError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Option<Arc<Map>>);

/// The reason why headers are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The name of a header is not valid.
    #[error("`{}` cannot name a header: a name has 1 to 255 bytes and no control characters", Shown(.0))]
    Name(String),
    /// There are too many headers.
    #[error(
        "{0} headers are more than the {most} that a timer has: keep the rest in its message",
        most = Headers::MAX_COUNT
    )]
    TooMany(usize),
    /// The headers are too large.
    #[error(
        "headers of {0} bytes are larger than the {most} that a timer has: keep the rest in its message",
        most = Headers::MAX_LEN
    )]
    TooLarge(usize),
}

impl Headers {
    /// Maximum number of headers.
    pub const MAX_COUNT: usize = 64;
    /// Maximum length of a name in bytes.
    pub const MAX_NAME_LEN: usize = 255;
    /// Maximum length of all names and values in bytes.
    pub const MAX_LEN: usize = 16 << 10;

    /// Creates empty headers.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Creates headers from names and values. Of a repeated name the last value counts.
    ///
    /// # Errors
    /// [`HeaderError`] if a name is not valid, or there are too many or too large ones.
    pub fn of<N, V>(headers: impl IntoIterator<Item = (N, V)>) -> Result<Self, HeaderError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut kept = BTreeMap::new();
        for (name, value) in headers {
            let (name, value) = (name.as_ref(), value.as_ref());
            // As that of a route.
            if !is_route_name(name) {
                return Err(HeaderError::Name(name.to_owned()));
            }
            kept.insert(name.into(), value.into());
            if kept.len() > Self::MAX_COUNT {
                return Err(HeaderError::TooMany(kept.len()));
            }
        }
        let headers = Self((!kept.is_empty()).then(|| Arc::new(kept)));
        let size = headers.size();
        if size > Self::MAX_LEN { Err(HeaderError::TooLarge(size)) } else { Ok(headers) }
    }

    /// Returns the value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.kept().get(name).map(|value| &**value)
    }

    /// Returns the names and values, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.kept().iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.kept().len()
    }

    /// Returns whether there are no headers.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the bytes of all names and values.
    pub(crate) fn size(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    pub(crate) fn kept(&self) -> &Map {
        static NONE: Map = Map::new();
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_ordered_by_name_and_the_last_value_counts() {
        let headers = Headers::of([("b", "1"), ("a", "2"), ("b", "")]).unwrap();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "")]);
        assert_eq!((headers.get("a"), headers.get("c"), headers.size()), (Some("2"), None, 3));
        assert_eq!(format!("{headers:?}"), r#"{"a": "2", "b": ""}"#);
        assert_eq!(Headers::of::<&str, &str>([]).unwrap(), Headers::new());
    }

    #[test]
    fn headers_are_bounded_in_number_and_size() {
        for name in ["", "a\nb", &"n".repeat(256)] {
            assert_eq!(Headers::of([(name, "")]), Err(HeaderError::Name(name.to_owned())));
        }
        let many = |count: usize| Headers::of((0..count).map(|number| (number.to_string(), "")));
        assert_eq!(many(64).unwrap().len(), 64);
        assert_eq!(many(65), Err(HeaderError::TooMany(65)));
        let large = |size: usize| Headers::of([("n", "v".repeat(size - 1))]);
        assert_eq!(large(Headers::MAX_LEN).unwrap().size(), Headers::MAX_LEN);
        let error = large(Headers::MAX_LEN + 1).unwrap_err();
        assert_eq!(error, HeaderError::TooLarge(16_385));
        assert!(error.to_string().starts_with("headers of 16385 bytes are larger than the 16384 "), "{error}");
        let replaced = Headers::of([("n", "v".repeat(10_000)), ("n", "w".repeat(10_000))]).unwrap();
        assert_eq!(replaced.size(), 10_001);
    }
}
