//! Durations as readable text for serde: `250ms`, `1h30m`. In binary formats, serde's own form.
//!
//! A whole number and a unit, repeated as needed: `ns`, `us` or `µs`, `ms`, `s`, `m`, `h`, `d`. `0s` is zero, `forever`
//! the longest duration.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The units of printed texts, in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const FOREVER: &str = "forever";

pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() { serializer.serialize_str(&print(*time)) } else { time.serialize(serializer) }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    if !deserializer.is_human_readable() {
        return Duration::deserialize(deserializer);
    }
    deserializer.deserialize_str(Text)
}

/// Reads a text.
struct Text;

impl de::Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time: whole numbers with units in a text, as in 250ms, 90s or 1h30m")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// A duration that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super")] Duration);

    pub(crate) fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Text).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(deserializer)?.map(|Text(time)| time))
    }
}

fn print(time: Duration) -> String {
    if time == Duration::MAX {
        return FOREVER.to_owned();
    }
    let mut rest = time.as_nanos();
    let mut text = String::new();
    for (unit, nanos) in UNITS {
        if rest >= nanos {
            text += &format!("{}{unit}", rest / nanos);
            rest %= nanos;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn parse(text: &str) -> Option<Duration> {
    if text == FOREVER {
        return Some(Duration::MAX);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, behind) = behind.split_at(behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len()));
        let unit = if unit == "µs" { "us" } else { unit };
        let (_, nanos) = UNITS.iter().find(|(known, _)| *known == unit)?;
        total = total.checked_add(number.parse::<u128>().ok()?.checked_mul(*nanos)?)?;
        rest = behind;
    }
    let seconds = u64::try_from(total / 1_000_000_000).ok()?;
    (!text.is_empty()).then(|| Duration::new(seconds, (total % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_duration_is_parsed_to_the_same_value() {
        let nanos = Duration::from_nanos;
        for (time, text) in [
            (Duration::ZERO, "0s"),
            (nanos(1), "1ns"),
            (nanos(1_500), "1us500ns"),
            (Duration::from_millis(250), "250ms"),
            (Duration::from_secs(5400), "1h30m"),
            (Duration::from_secs(86_400 * 400), "400d"),
            (nanos(90_061_001_001_001), "1d1h1m1s1ms1us1ns"),
            (Duration::MAX, "forever"),
        ] {
            assert_eq!(print(time), text);
            assert_eq!(parse(text), Some(time));
        }
        let almost = Duration::MAX - nanos(1);
        assert_eq!(parse(&print(almost)), Some(almost));
    }

    #[test]
    fn units_may_come_in_any_order_and_number() {
        assert_eq!(parse("90m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse("30m1h"), Some(Duration::from_secs(5400)));
        assert_eq!(parse("5µs"), Some(Duration::from_micros(5)));
        assert_eq!(parse("0ms"), Some(Duration::ZERO));
    }

    #[test]
    fn text_that_is_no_duration_is_rejected() {
        let huge = format!("{}d", u128::MAX);
        let over = format!("{}s", u128::from(u64::MAX) + 1);
        for text in ["", " ", "5", "s", "-1s", "1.5s", "1 s", "1x", "1s5", "ever", "1S", &huge, &over] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
