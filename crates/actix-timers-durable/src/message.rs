//! Messages that can be kept: they have a name, a version, and a written form.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message of durable timers: what it is called in the store, and how it is written there.
///
/// It is written as JSON unless [`encode`](Self::encode) and [`decode`](Self::decode) say otherwise. Such a format names its
/// fields, so that one can be added (with `#[serde(default)]`) and messages that wait in the store since before can still be
/// read. For a change that serde cannot bridge, count [`VERSION`](Self::VERSION) up and read the old one in `decode`.
///
/// ```
/// use actix_timers_durable::{DecodeError, DurableMessage};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Remind {
///     customer: u64,
///     text: String,
/// }
///
/// impl DurableMessage for Remind {
///     const NAME: &'static str = "remind";
///     const VERSION: u32 = 2;
///
///     fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
///         if version == 1 {
///             // In the first version the message was a bare number.
///             let customer = serde_json::from_slice(payload).map_err(DecodeError::malformed)?;
///             return Ok(Self { customer, text: "hello again".to_owned() });
///         }
///         Self::decode_json(version, payload)
///     }
/// }
///
/// assert_eq!(Remind::decode(1, b"7")?.customer, 7);
/// assert!(matches!(Remind::decode(3, b"{}"), Err(DecodeError::NewerVersion { found: 3, known: 2, .. })));
/// # Ok::<(), DecodeError>(())
/// ```
pub trait DurableMessage: Serialize + DeserializeOwned + Send + 'static {
    /// What the type is called in the store. It must stay the same when the type is renamed or moved, and no two types of
    /// one route may share it.
    const NAME: &'static str;

    /// The version of the written form. What this build does not know is kept until one runs that does.
    const VERSION: u32 = 1;

    /// Writes the message.
    ///
    /// # Errors
    /// [`EncodeError`] if it has no written form. Nothing is scheduled then, and the message comes back.
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        serde_json::to_vec(self).map_err(EncodeError::new)
    }

    /// Reads a message that was written in this version.
    ///
    /// # Errors
    /// [`DecodeError`] if it cannot be read. It is set aside then, with a warning, and no attempt is used up; a start with
    /// a build that can read it delivers it.
    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_json(version, payload)
    }

    /// Reads what the default [`encode`](Self::encode) wrote, in this or an earlier version.
    ///
    /// # Errors
    /// [`DecodeError::NewerVersion`] if the version is above [`VERSION`](Self::VERSION); [`DecodeError::Malformed`] if it
    /// is not the JSON of this type.
    fn decode_json(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if version > Self::VERSION {
            return Err(DecodeError::NewerVersion { message_type: Self::NAME, found: version, known: Self::VERSION });
        }
        serde_json::from_slice(payload).map_err(DecodeError::malformed)
    }
}

/// A message has no written form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(String);

impl EncodeError {
    /// For that reason.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// A message that was kept cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It was written by a later build.
    #[error("version {found} of {message_type:?} is newer than version {known}, which this build knows")]
    NewerVersion {
        /// The name of the type.
        message_type: &'static str,
        /// The version in which it was written.
        found: u32,
        /// The newest that this build knows.
        known: u32,
    },
    /// It was written as another type than it is read as.
    #[error("a message of type {found:?} is not one of type {wanted:?}")]
    OtherType {
        /// As what it was written.
        found: String,
        /// As what it was to be read.
        wanted: &'static str,
    },
    /// It is not what this type is written as.
    #[error("{0}")]
    Malformed(String),
}

impl DecodeError {
    /// For that reason.
    pub fn malformed(reason: impl std::fmt::Display) -> Self {
        Self::Malformed(reason.to_string())
    }
}
