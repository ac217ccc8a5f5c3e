//! Codecs of payloads: transformations of all messages of a store, such as compression and encryption.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::message::{DecodeError, EncodeError};
use super::routes::is_route_name;

/// Transforms the encoded messages of durable timers before they are stored, and back: compression, encryption. See
/// [`DurableTimersBuilder::payload_codec`](super::DurableTimersBuilder::payload_codec).
///
/// Each record keeps the [id](Self::id) of the codec that encoded its payload, so that a codec can be introduced,
/// changed and removed while timers are pending. A payload that was stored without a codec is passed to
/// [`DurableMessage::decode`](super::DurableMessage::decode) as it is.
///
/// ```
/// use actix_timers_durable::{DecodeError, EncodeError, PayloadCodec};
/// # type Bytes = Result<Vec<u8>, String>;
/// # fn seal(key: u8, payload: &[u8]) -> Bytes { Ok(payload.iter().map(|byte| byte ^ key).collect()) }
/// # fn open(key: u8, payload: &[u8]) -> Bytes { seal(key, payload) }
///
/// /// Encrypts with the newest key, and knows the previous one.
/// struct Sealed {
///     new: u8,
///     old: u8,
/// }
///
/// impl PayloadCodec for Sealed {
///     fn id(&self) -> &str {
///         "sealed/2"
///     }
///
///     fn encode(&self, payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
///         seal(self.new, &payload).map_err(EncodeError::new)
///     }
///
///     fn decode(&self, id: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
///         let key = match id {
///             "sealed/2" => self.new,
///             "sealed/1" => self.old,
///             _ => return Err(DecodeError::unknown_codec(id)),
///         };
///         open(key, payload).map_err(DecodeError::malformed)
///     }
/// }
/// ```
pub trait PayloadCodec: Send + Sync + 'static {
    /// Returns the id that is kept with each encoded payload: 1 to 255 bytes without control characters. It should name
    /// everything that [`decode`](Self::decode) must know: the algorithm, its version, the key.
    fn id(&self) -> &str;

    /// Transforms the output of [`DurableMessage::encode`](super::DurableMessage::encode). It is called on the threads
    /// that schedule, also at the same time.
    ///
    /// # Errors
    /// The payload cannot be transformed. The message is not scheduled then, and is returned to the caller.
    fn encode(&self, payload: Vec<u8>) -> Result<Vec<u8>, EncodeError>;

    /// Reverses [`encode`](Self::encode) for a payload that a codec with this id has encoded: this one, or an earlier
    /// one.
    ///
    /// # Errors
    /// The payload cannot be transformed back, or the id is [unknown](DecodeError::unknown_codec). The message is
    /// parked then, as one that cannot be decoded.
    fn decode(&self, id: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError>;
}

/// The codec of durable timers, if any.
#[derive(Clone, Default)]
pub(super) struct Codec(Option<Arc<dyn PayloadCodec>>);

impl Codec {
    pub(super) fn new(codec: impl PayloadCodec) -> Self {
        Self(Some(Arc::new(codec)))
    }

    /// Encodes a payload, and returns it with the id of the codec.
    pub(super) fn encode(&self, payload: Vec<u8>) -> Result<(Option<Arc<str>>, Vec<u8>), EncodeError> {
        let Some(codec) = &self.0 else { return Ok((None, payload)) };
        let encoded = codec.encode(payload)?;
        let id = codec.id();
        if !is_route_name(id) {
            return Err(EncodeError::new("the id of a payload codec has 1 to 255 bytes and no control characters"));
        }
        Ok((Some(id.into()), encoded))
    }

    /// Decodes a payload that was stored with this id.
    pub(super) fn decode<'a>(&self, id: Option<&str>, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, DecodeError> {
        match (id, &self.0) {
            (None, _) => Ok(Cow::Borrowed(payload)),
            (Some(id), Some(codec)) => codec.decode(id, payload).map(Cow::Owned),
            (Some(id), None) => Err(DecodeError::unknown_codec(id)),
        }
    }
}

/// Equal to every other one: the equality of data does not depend on their decoder.
impl PartialEq for Codec {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Codec").field(&self.0.as_ref().map(|codec| codec.id())).finish()
    }
}
