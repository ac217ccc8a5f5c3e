//! The parameters in the query string of a request. Unknown ones are rejected, not ignored.

use std::time::Duration;

use actix_timers::{ActorTag, TimerFilter, TimerState};
use percent_encoding::percent_decode_str;

use super::error::Rejection;

/// Maximum and default number of timers in one answer.
pub(super) const MAX_LIMIT: usize = 500;
const USUALLY: usize = 50;

/// Maximum length of a text to search for, in bytes.
const MAX_VALUE_LEN: usize = 1024;

/// The parameters of a query string, each at most once.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string with these known parameters.
    pub(super) fn parse(query: &str, known: &[&str]) -> Result<Self, Rejection> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                return Err(bad(format!("`{name}` is not a parameter here: {} are", known.join(", "))));
            }
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(bad(format!("`{name}` is given twice")));
            }
            // PostgreSQL's texts have no character 0.
            if value.contains('\0') {
                return Err(bad(format!("`{name}` has a character 0")));
            }
            if value.len() > MAX_VALUE_LEN {
                return Err(bad(format!("`{name}` is longer than {MAX_VALUE_LEN} bytes")));
            }
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// Returns the value of a parameter; none if empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }

    /// Parses a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Rejection> {
        let parse =
            |text: &str| text.parse().map_err(|_| bad(format!("`{name}` is a whole number from 0 to {}", u64::MAX)));
        self.text(name).map(parse).transpose()
    }

    /// Parses a required number.
    pub(super) fn needed(&self, name: &str) -> Result<u64, Rejection> {
        self.number(name)?.ok_or_else(|| bad(format!("`{name}` is missing")))
    }

    /// Whether all timer actors are requested, instead of one by its name.
    pub(super) fn wants_all(&self) -> Result<bool, Rejection> {
        match (self.text("all"), self.text("timer")) {
            (None | Some("false"), _) => Ok(false),
            (Some("true"), None) => Ok(true),
            (Some("true"), Some(_)) => Err(bad("`all` and `timer` exclude each other".to_owned())),
            (Some(_), _) => Err(bad("`all` is true or false".to_owned())),
        }
    }

    /// Parses the number of requested timers.
    pub(super) fn limit(&self, most: usize) -> Result<usize, Rejection> {
        let limit = self.number("limit")?.map_or(Some(USUALLY), |limit| usize::try_from(limit).ok());
        match limit {
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(bad(format!("`limit` is a whole number from 1 to {most}"))),
        }
    }

    /// Parses seconds, with an optional fraction.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<Duration>, Rejection> {
        let parse = |text: &str| {
            let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| bad(format!("`{name}` is a number of seconds, not negative")))
        };
        self.text(name).map(parse).transpose()
    }

    /// Parses the filter of timers.
    pub(super) fn filter(&self) -> Result<TimerFilter, Rejection> {
        let mut filter = TimerFilter::new();
        if let Some(key) = self.text("key") {
            filter = filter.key_written_as(key);
        }
        if let Some(group) = self.text("group") {
            filter = filter.group(group.to_owned());
        }
        if let Some(actor) = self.text("actor") {
            filter = match actor.parse::<ActorTag>() {
                Ok(tag) => filter.actor_tag(tag),
                Err(_) => filter.actor_type_containing(actor),
            };
        }
        if let Some(part) = self.text("message_type") {
            filter = filter.message_type_containing(part);
        }
        if let Some(state) = self.text("state") {
            filter = filter.state(state_of(state)?);
        }
        if let Some(level) = self.number("level")? {
            filter = filter.level(usize::try_from(level).unwrap_or(usize::MAX));
        }
        if let Some(time) = self.seconds("due_within")? {
            filter = filter.due_within(time);
        }
        if let Some(time) = self.seconds("due_after")? {
            filter = filter.due_after(time);
        }
        Ok(filter)
    }
}

pub(super) fn bad(message: String) -> Rejection {
    Rejection::BadRequest(message)
}

fn decoded(text: &str) -> Result<String, Rejection> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(Into::into).map_err(|_| bad("the query is not UTF-8".to_owned()))
}

pub(super) const fn name_of(state: TimerState) -> &'static str {
    match state {
        TimerState::Waiting => "waiting",
        TimerState::Due => "due",
        TimerState::InFlight => "in_flight",
        TimerState::Between => "between",
    }
}

fn state_of(text: &str) -> Result<TimerState, Rejection> {
    let states = [TimerState::Waiting, TimerState::Due, TimerState::InFlight, TimerState::Between];
    let wanted = states.into_iter().find(|state| name_of(*state) == text);
    wanted.ok_or_else(|| bad("`state` is one of waiting, due, in_flight, between".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Query, Rejection> {
        Query::parse(query, &["key", "limit", "due_within", "state"])
    }

    #[test]
    fn an_invalid_query_is_rejected_with_a_reason() {
        for (query, reason) in [
            ("%FF=1", "not UTF-8"),
            ("key=%C3%28", "not UTF-8"),
            ("kay=1", "`kay` is not a parameter"),
            ("key=1&key=2", "given twice"),
            ("key=%00", "character 0"),
            (&format!("key={}", "x".repeat(1025)), "longer than 1024"),
        ] {
            let rejection = parse(query).unwrap_err().to_string();
            assert!(rejection.contains(reason), "{query}: {rejection}");
        }
        for limit in ["0", "501", "-1", "1e3", "x", "99999999999999999999999"] {
            assert!(parse(&format!("limit={limit}")).unwrap().limit(MAX_LIMIT).is_err(), "{limit}");
        }
        for seconds in ["-1", "NaN", "inf", "1s", "1e300"] {
            assert!(parse(&format!("due_within={seconds}")).unwrap().filter().is_err(), "{seconds}");
        }
        assert!(parse("state=Waiting").unwrap().filter().is_err());
    }

    #[test]
    fn a_valid_query_is_parsed() {
        let query = parse("key=a+b%26%E2%82%AC&limit=500&&due_within=1.5&state=in_flight").unwrap();
        assert_eq!((query.text("key"), query.limit(MAX_LIMIT)), (Some("a b&€"), Ok(500)));
        let filter = TimerFilter::new().key_written_as("a b&€").due_within(Duration::from_millis(1500));
        assert_eq!(query.filter(), Ok(filter.state(TimerState::InFlight)));
        assert_eq!((parse("").unwrap().limit(MAX_LIMIT), parse("key=&limit=").unwrap().text("key")), (Ok(50), None));
    }
}
