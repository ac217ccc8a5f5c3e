//! The encoding of a record: the body of a row in the embedded store, usable by other stores.
//!
//! Id and due time are not part of it: they are in the key of the record. Whole numbers are unsigned LEB128 ("varint",
//! seven bits a byte, low ones first), texts are UTF-8 after their length.
//!
//! | field | form |
//! |---|---|
//! | version | one byte: 2 with flag 64 or 128, else 1 |
//! | flags | one byte: 1 key, 2 repeat, 4 retry, 8 nominal, 16 attempt, 32 repetition, 64 headers, 128 codec of the payload |
//! | key | text, if flag 1 |
//! | sequence, message version | two numbers |
//! | route, message type | two texts |
//! | nominal | number of milliseconds since 1970, if flag 8; else it is the due time |
//! | attempt | number, if flag 16; else it is 1 |
//! | repetition | number, if flag 32; else it is 1 |
//! | repeat | if flag 2: a byte for the mode (0 to 2: fixed rate and `Skip`, `Burst`, `Delay`; 3: cron), period (seconds, nanoseconds) or expression and zone, then `times` plus one or 0, then `until` plus one or 0 |
//! | retry | if flag 4: attempts, three durations (first delay, longest delay, time-out; each seconds and nanoseconds), a byte for the jitter |
//! | headers | if flag 64: their number, then name and value of each, as texts |
//! | payload codec | text, if flag 128 |
//! | payload | the rest |
//!
//! A record without headers and codec has version 1, so that a store without them can be read by versions that do not
//! know them.
//!
//! The decoder trusts nothing: for arbitrary bytes it returns a record or an error, and allocates little more than their
//! number.

use std::sync::Arc;
use std::time::Duration;

use crate::{DueTime, DurableId, Headers, Missed, Record, RecordState, RepeatMode, RetryPolicy, StoredRepeat};

/// The error of bytes that are not a record of a supported version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the record is cut short")]
    Short,
    /// The version is not supported: the record is not damaged, but a newer version has written it.
    #[error("the record has version {0}, and this version of actix-timers knows versions up to {NEWEST}")]
    Version(u8),
    /// A field has a value that no record contains.
    #[error("the record has an impossible {0}")]
    Impossible(&'static str),
}

/// The version of records without headers and codec.
const PLAIN: u8 = 1;
/// The newest version that can be decoded.
pub const NEWEST: u8 = 2;
const KEY: u8 = 1;
const REPEAT: u8 = 2;
const RETRY: u8 = 4;
const NOMINAL: u8 = 8;
const ATTEMPT: u8 = 16;
const REPETITION: u8 = 32;
const HEADERS: u8 = 64;
const CODEC: u8 = 128;
/// Flags of version 1.
const PLAIN_FLAGS: u8 = 63;
const CRON: u8 = 3;

/// Returns the version in which [`encode`] writes a record: the oldest one that has all its fields.
pub const fn version(record: &Record) -> u8 {
    if record.headers.is_empty() && record.payload_codec.is_none() { PLAIN } else { NEWEST }
}

/// Appends a record, without its id and due time.
///
/// ```
/// use actix_timers_durable::store::codec;
/// use actix_timers_durable::{DueTime, DurableId, RecordState, Record};
///
/// let due = DueTime::from_millis(1_700_000_000_000)?;
/// let record = Record {
///     id: DurableId::new(0, due),
///     progress: RecordState::first(due),
///     sequence: 1,
///     route: "reminders".into(),
///     message_type: "Remind".into(),
///     message_version: 1,
///     key: None,
///     repeat: None,
///     retry: None,
///     headers: Default::default(),
///     payload_codec: None,
///     payload: b"{}".as_slice().into(),
/// };
/// let mut bytes = Vec::new();
/// codec::encode(&record, &mut bytes);
/// assert_eq!(codec::decode(record.id, due, &bytes)?, record);
/// assert!(codec::decode(record.id, due, &bytes[..5]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(record: &Record, out: &mut Vec<u8>) {
    let RecordState { due, nominal, attempt, repetition } = record.progress;
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    let flags = flag(record.key.is_some(), KEY)
        | flag(record.repeat.is_some(), REPEAT)
        | flag(record.retry.is_some(), RETRY)
        | flag(nominal != due, NOMINAL)
        | flag(attempt != 1, ATTEMPT)
        | flag(repetition != 1, REPETITION)
        | flag(!record.headers.is_empty(), HEADERS)
        | flag(record.payload_codec.is_some(), CODEC);
    out.push(version(record));
    out.push(flags);
    if let Some(key) = &record.key {
        put_text(key, out);
    }
    put_number(record.sequence, out);
    put_number(record.message_version.into(), out);
    put_text(&record.route, out);
    put_text(&record.message_type, out);
    if nominal != due {
        put_number(nominal.as_millis(), out);
    }
    if attempt != 1 {
        put_number(attempt.into(), out);
    }
    if repetition != 1 {
        put_number(repetition, out);
    }
    if let Some(repeat) = &record.repeat {
        put_repeat(repeat, out);
    }
    if let Some(retry) = &record.retry {
        put_number(retry.attempts.into(), out);
        for duration in [retry.initial_delay, retry.max_delay, retry.timeout] {
            put_duration(duration, out);
        }
        out.push(retry.jitter_percent);
    }
    if !record.headers.is_empty() {
        put_number(record.headers.len() as u64, out);
        for (name, value) in record.headers.iter() {
            put_text(name, out);
            put_text(value, out);
        }
    }
    if let Some(codec) = &record.payload_codec {
        put_text(codec, out);
    }
    out.extend_from_slice(&record.payload);
}

/// Decodes the output of [`encode`]. Id and due time come from the key.
///
/// # Errors
/// [`DecodeError`] if the bytes are no record.
pub fn decode(id: DurableId, due: DueTime, bytes: &[u8]) -> Result<Record, DecodeError> {
    decode_named(id, due, bytes, &mut |name| name.into())
}

/// As [`decode`]; `name` returns a name, so that records can share it.
pub(super) fn decode_named(
    id: DurableId,
    due: DueTime,
    bytes: &[u8],
    name: &mut dyn FnMut(&str) -> Arc<str>,
) -> Result<Record, DecodeError> {
    let mut input = Input(bytes);
    let flags = input.head()?;
    let has = |flag| flags & flag != 0;
    let key = if has(KEY) { Some(input.text()?.into()) } else { None };
    let sequence = input.number()?;
    let message_version = input.number_32("message version")?;
    let route = name(input.text()?);
    let message_type = name(input.text()?);
    let nominal = if has(NOMINAL) { time(input.number()?)? } else { due };
    let attempt = if has(ATTEMPT) { input.number_32("attempt")? } else { 1 };
    let repetition = if has(REPETITION) { input.number()? } else { 1 };
    let repeat = if has(REPEAT) { Some(input.repeat()?) } else { None };
    let retry = if has(RETRY) { Some(input.retry()?) } else { None };
    let headers = if has(HEADERS) { input.headers()? } else { Headers::new() };
    let payload_codec = if has(CODEC) { Some(name(input.text()?)) } else { None };
    Ok(Record {
        id,
        progress: RecordState { due, nominal, attempt, repetition },
        sequence,
        route,
        message_type,
        message_version,
        key,
        repeat,
        retry,
        headers,
        payload_codec,
        payload: input.0.into(),
    })
}

/// Returns the version of a record that this build cannot decode because it does not know that version.
pub(super) fn unknown_version(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied().filter(|version| *version > NEWEST)
}

/// Returns the key of a record, without decoding the rest.
pub(super) fn key_of(bytes: &[u8]) -> Result<Option<&str>, DecodeError> {
    let mut input = Input(bytes);
    let flags = input.head()?;
    if flags & KEY != 0 { input.text().map(Some) } else { Ok(None) }
}

pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn put_duration(duration: Duration, out: &mut Vec<u8>) {
    put_number(duration.as_secs(), out);
    put_number(duration.subsec_nanos().into(), out);
}

fn put_repeat(repeat: &StoredRepeat, out: &mut Vec<u8>) {
    match &repeat.mode {
        RepeatMode::FixedRate { period, missed } => {
            out.push(match missed {
                Missed::Skip => 0,
                Missed::Burst => 1,
                Missed::Delay => 2,
            });
            put_duration(*period, out);
        }
        RepeatMode::Cron { expression, zone } => {
            out.push(CRON);
            put_text(expression, out);
            put_text(zone, out);
        }
    }
    // No timer reaches repetition number 2^64 - 1.
    put_number(repeat.times.map_or(0, |times| times.saturating_add(1)), out);
    put_number(repeat.until.map_or(0, |until| until.as_millis() + 1), out);
}

fn time(millis: u64) -> Result<DueTime, DecodeError> {
    DueTime::from_millis(millis).map_err(|_| DecodeError::Impossible("time"))
}

/// The bytes left to decode.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.0.split_first().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Impossible("number"))
    }

    pub(super) fn number_32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.number()?.try_into().map_err(|_| DecodeError::Impossible(what))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.number()?.try_into().map_err(|_| DecodeError::Short)?;
        str::from_utf8(self.bytes(length)?).map_err(|_| DecodeError::Impossible("text"))
    }

    pub(super) fn time(&mut self) -> Result<DueTime, DecodeError> {
        time(self.number()?)
    }

    fn duration(&mut self) -> Result<Duration, DecodeError> {
        let seconds = self.number()?;
        let nanos = self.number_32("duration")?;
        if nanos < 1_000_000_000 { Ok(Duration::new(seconds, nanos)) } else { Err(DecodeError::Impossible("duration")) }
    }

    /// Checks the version and returns the flags.
    fn head(&mut self) -> Result<u8, DecodeError> {
        let known = match self.byte()? {
            PLAIN => PLAIN_FLAGS,
            NEWEST => u8::MAX,
            0 => return Err(DecodeError::Impossible("version")),
            version => return Err(DecodeError::Version(version)),
        };
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(DecodeError::Impossible("flag")) }
    }

    fn repeat(&mut self) -> Result<StoredRepeat, DecodeError> {
        let mode = match self.byte()? {
            CRON => RepeatMode::Cron { expression: self.text()?.to_owned(), zone: self.text()?.to_owned() },
            tag => {
                let missed = match tag {
                    0 => Missed::Skip,
                    1 => Missed::Burst,
                    2 => Missed::Delay,
                    _ => return Err(DecodeError::Impossible("mode")),
                };
                RepeatMode::FixedRate { period: self.duration()?, missed }
            }
        };
        let times = self.number()?.checked_sub(1);
        let until = self.number()?.checked_sub(1).map(time).transpose()?;
        Ok(StoredRepeat { mode, times, until })
    }

    fn retry(&mut self) -> Result<RetryPolicy, DecodeError> {
        let attempts = self.number_32("number of attempts")?;
        let [initial_delay, max_delay, timeout] = [self.duration()?, self.duration()?, self.duration()?];
        let jitter_percent = self.byte()?;
        if attempts == 0 || jitter_percent > 100 {
            return Err(DecodeError::Impossible("retry policy"));
        }
        Ok(RetryPolicy { attempts, initial_delay, max_delay, jitter_percent, timeout })
    }

    fn headers(&mut self) -> Result<Headers, DecodeError> {
        let count = self.number()?;
        if count > Headers::MAX_COUNT as u64 {
            return Err(DecodeError::Impossible("number of headers"));
        }
        let texts = (0..count).map(|_| Ok((self.text()?, self.text()?))).collect::<Result<Vec<_>, DecodeError>>()?;
        Headers::of(texts).map_err(|_| DecodeError::Impossible("header"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn due(millis: u64) -> DueTime {
        DueTime::from_millis(millis).unwrap()
    }

    fn plain() -> Record {
        let due = due(1_700_000_000_000);
        Record {
            id: DurableId::from_parts(3, due, 42),
            progress: RecordState::first(due),
            sequence: u64::MAX,
            route: "route".into(),
            message_type: "".into(),
            message_version: u32::MAX,
            key: None,
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: [7; 300].into(),
        }
    }

    fn samples() -> Vec<Record> {
        let fixed = |missed| RepeatMode::FixedRate { period: Duration::new(u64::MAX, 999_999_999), missed };
        let modes = [
            fixed(Missed::Skip),
            fixed(Missed::Burst),
            fixed(Missed::Delay),
            RepeatMode::Cron { expression: "0 9 * * *".to_owned(), zone: "Europe/Zürich".to_owned() },
        ];
        let with_headers = Record { headers: headers(), payload: [].into(), ..plain() };
        let with_codec = Record { payload_codec: Some("".into()), ..plain() };
        let mut samples = vec![plain(), Record { payload: [].into(), ..plain() }, with_headers, with_codec];
        for mode in modes {
            for (times, until) in [(None, None), (Some(0), Some(DueTime::MIN)), (Some(9), Some(DueTime::MAX))] {
                let repeat = Some(StoredRepeat { mode: mode.clone(), times, until });
                let progress =
                    RecordState { attempt: u32::MAX, repetition: u64::MAX, nominal: due(5), ..plain().progress };
                let retry = Some(RetryPolicy::default().jitter_percent(100).timeout(Duration::MAX));
                let full = Record { repeat, progress, retry, key: Some("Schlüssel".into()), ..plain() };
                let payload_codec = times.map(|_| "sealed/2".into());
                samples.push(Record { headers: headers(), payload_codec, ..full.clone() });
                samples.push(full);
            }
        }
        samples
    }

    fn headers() -> Headers {
        Headers::of([("traceparent", "00-4bf9"), ("tenant", "Zürich"), ("e", "")]).unwrap()
    }

    fn encoded(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(record, &mut bytes);
        bytes
    }

    #[test]
    fn an_encoded_record_is_decoded_to_the_same() {
        for record in samples() {
            let bytes = encoded(&record);
            assert_eq!(decode(record.id, record.progress.due, &bytes), Ok(record.clone()));
            assert_eq!(key_of(&bytes).unwrap(), record.key.as_deref());
        }
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let due = due(1_000);
        let record = Record {
            id: DurableId::from_parts(0, due, 0),
            progress: RecordState { due, nominal: self::due(999), attempt: 2, repetition: 300 },
            sequence: 128,
            route: "r".into(),
            message_type: "M".into(),
            message_version: 1,
            key: Some("k".into()),
            repeat: Some(StoredRepeat {
                mode: RepeatMode::FixedRate { period: Duration::from_millis(1_500), missed: Missed::Burst },
                times: None,
                until: Some(self::due(1)),
            }),
            retry: Some(RetryPolicy::default()),
            headers: Headers::new(),
            payload_codec: None,
            payload: b"{}".as_slice().into(),
        };
        let expected: &[&[u8]] = &[
            &[1, 63],
            b"\x01k",
            &[0x80, 1, 1],
            b"\x01r\x01M",
            &[0xE7, 7, 2, 0xAC, 2],
            &[1, 1, 0x80, 0xCA, 0xB5, 0xEE, 1, 0, 2],
            &[10, 1, 0, 0xAC, 2, 0, 30, 0, 20],
            b"{}",
        ];
        assert_eq!(encoded(&record), expected.concat());
    }

    /// Builds that do not know these read a store without any.
    #[test]
    fn only_a_record_with_headers_or_a_codec_has_version_2() {
        for record in samples() {
            let is_plain = record.headers.is_empty() && record.payload_codec.is_none();
            assert_eq!(encoded(&record)[0], if is_plain { 1 } else { 2 });
        }
    }

    #[test]
    fn the_bytes_of_version_2_stay_as_they_are() {
        let due = due(1_000);
        let record = Record {
            id: DurableId::from_parts(0, due, 0),
            progress: RecordState::first(due),
            sequence: 1,
            route: "r".into(),
            message_type: "M".into(),
            headers: Headers::of([("a", "b"), ("c", "")]).unwrap(),
            payload_codec: Some("z".into()),
            payload: b"{}".as_slice().into(),
            message_version: 1,
            ..plain()
        };
        let expected: &[&[u8]] = &[&[2, 192, 1, 1], b"\x01r\x01M", b"\x02\x01a\x01b\x01c\x00", b"\x01z", b"{}"];
        assert_eq!(encoded(&record), expected.concat());
    }

    #[test]
    fn headers_that_no_timer_has_are_rejected() {
        let id = plain().id;
        let decoded = |headers: &[u8]| decode(id, DueTime::MIN, &[&[2, 64, 1, 1, 0, 0], headers].concat());
        assert!(decoded(&[1, 1, b'a', 0]).is_ok());
        assert_eq!(decoded(&[65]), Err(DecodeError::Impossible("number of headers")));
        assert_eq!(decoded(&[1, 0, 0]), Err(DecodeError::Impossible("header")), "without a name");
        assert_eq!(decoded(&[2, 1, b'a', 0]), Err(DecodeError::Short));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let id = plain().id;
        for record in samples() {
            let bytes = encoded(&record);
            for length in 0..bytes.len() - record.payload.len() {
                assert!(decode(id, DueTime::MIN, &bytes[..length]).is_err(), "{length} bytes of {record:?}");
            }
            for at in 0..bytes.len().min(120) {
                for bit in 0..8 {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << bit;
                    let _ = decode(id, DueTime::MIN, &flipped);
                    let _ = key_of(&flipped);
                }
            }
        }
        assert_eq!(decode(id, DueTime::MIN, &[3, 0]), Err(DecodeError::Version(3)));
        assert_eq!(decode(id, DueTime::MIN, &[0, 0]), Err(DecodeError::Impossible("version")));
        assert_eq!([&[][..], &[0], &[1], &[2], &[3, 1]].map(unknown_version), [None, None, None, None, Some(3)]);
        assert_eq!(decode(id, DueTime::MIN, &[1, 64]), Err(DecodeError::Impossible("flag")));
        assert_eq!(Input(&[0xFF; 10]).number(), Err(DecodeError::Impossible("number")));
        assert_eq!(Input(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]).number(), Ok(u64::MAX));
    }
}
