//! Messages that can be stored: they have a name, a version and an encoding.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message of durable timers, with its name and encoding in the store.
///
/// The default encoding is JSON; [`encode`](Self::encode) and [`decode`](Self::decode) can replace it. JSON names its
/// fields, so that one can be added (with `#[serde(default)]`) and older messages in the store can still be read. For a
/// change that serde cannot bridge, increment [`VERSION`](Self::VERSION) and read the old version in `decode`.
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
///
/// The derive macro writes the constants, for the default encoding:
///
#[cfg_attr(feature = "derive", doc = "```")]
#[cfg_attr(not(feature = "derive"), doc = "```ignore")]
/// use actix_timers_durable::DurableMessage;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, DurableMessage)]
/// #[durable("order_paid", version = 2, alias = "paid")]
/// struct OrderPaid {
///     order: u64,
///     #[serde(default)]
///     currency: Option<String>,
/// }
///
/// assert_eq!((OrderPaid::NAME, OrderPaid::VERSION, OrderPaid::ALIASES), ("order_paid", 2, &["paid"][..]));
/// assert_eq!(OrderPaid::decode(1, br#"{"order":7}"#)?.currency, None);
/// # Ok::<(), actix_timers_durable::DecodeError>(())
/// ```
pub trait DurableMessage: Serialize + DeserializeOwned + Send + 'static {
    /// The name of the type in the store. It must stay the same when the type is renamed or moved, and no two types of
    /// one route may share it.
    const NAME: &'static str;

    /// The version of the encoding. Messages of later versions are kept until a build knows them.
    const VERSION: u32 = 1;

    /// Former names of the type, whose messages it decodes, too.
    const ALIASES: &'static [&'static str] = &[];

    /// Encodes the message.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be encoded. It is not scheduled then, and is returned to the caller; so it is after
    /// a panic.
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        serde_json::to_vec(self).map_err(EncodeError::new)
    }

    /// Decodes a message of this version.
    ///
    /// # Errors
    /// [`DecodeError`] if it cannot be decoded. It is parked then, with a warning, and no attempt is used up; a start
    /// with a build that can read it delivers it.
    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_json(version, payload)
    }

    /// Decodes the output of the default [`encode`](Self::encode), of this or an earlier version.
    ///
    /// # Errors
    /// [`DecodeError::NewerVersion`] if the version is above [`VERSION`](Self::VERSION); [`DecodeError::Malformed`] if
    /// it is not the JSON of this type.
    fn decode_json(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if version > Self::VERSION {
            return Err(DecodeError::NewerVersion { message_type: Self::NAME, found: version, known: Self::VERSION });
        }
        serde_json::from_slice(payload).map_err(DecodeError::malformed)
    }
}

/// The error of a message that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(String);

impl EncodeError {
    /// Creates an error with this reason.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// The error of a stored message that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It was written by a later build.
    #[error("version {found} of {message_type:?} is newer than version {known}, which this build knows")]
    NewerVersion {
        /// The name of the message type.
        message_type: &'static str,
        /// The version of the stored message.
        found: u32,
        /// The newest version that this build knows.
        known: u32,
    },
    /// The stored message is of another type than requested.
    #[error("a message of type {found:?} is not one of type {wanted:?}")]
    OtherType {
        /// The type of the stored message.
        found: String,
        /// The requested type.
        wanted: &'static str,
    },
    /// The payload was encoded by a codec that is not there.
    #[error("the codec {found:?} of the payload is unknown: give it to `DurableTimersBuilder::payload_codec`")]
    UnknownCodec {
        /// The id of the codec.
        found: String,
    },
    /// The payload is not an encoding of this type.
    #[error("{0}")]
    Malformed(String),
}

impl DecodeError {
    /// Creates an error for a malformed payload.
    pub fn malformed(reason: impl std::fmt::Display) -> Self {
        Self::Malformed(reason.to_string())
    }

    /// Creates an error for an unknown [codec](super::PayloadCodec).
    pub fn unknown_codec(id: &str) -> Self {
        Self::UnknownCodec { found: id.to_owned() }
    }
}
