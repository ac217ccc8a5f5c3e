//! The table printed at the end.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use actix_timers::Snapshot;
use jiff::SignedDuration;

use crate::check::{self, Findings, Tally};
use crate::clock::Speed;
use crate::log::Log;
use crate::replay::{Replay, Span};

/// The maximum number of problems listed.
const PROBLEMS_LISTED: usize = 10;

pub(crate) struct Report<'a> {
    pub(crate) tallies: &'a BTreeMap<String, Tally>,
    pub(crate) total: &'a Tally,
    pub(crate) facts: &'a [Fact],
    pub(crate) findings: &'a Findings,
}

/// A row: name and value.
pub(crate) type Fact = (&'static str, String);

/// The outcome of a replay.
pub(crate) trait Outcome {
    /// Returns the log of all airports.
    fn log(&self) -> &Log;

    /// Adds the deviations from the file that the logs do not show.
    fn check(&self, expected: &Tally, problems: &mut Vec<String>);

    fn facts(&self, total: &Tally, span: Span, speed: Option<Speed>) -> Vec<Fact>;
}

impl Outcome for Replay {
    fn log(&self) -> &Log {
        &self.log
    }

    fn check(&self, expected: &Tally, problems: &mut Vec<String>) {
        check::counters(&self.closed.counters, expected, problems);
    }

    fn facts(&self, total: &Tally, span: Span, speed: Option<Speed>) -> Vec<Fact> {
        let Self { opened, closed, took, .. } = self;
        let mut facts = vec![
            ("latest lag", lag(total, speed)),
            ("wheel depth reached", wheel(opened.wheel_depth().max(closed.wheel_depth()), closed)),
            ("pending", format!("{} at most, {} at the end", grouped(opened.pending()), grouped(closed.pending()))),
        ];
        facts.extend(facts_of_time(span, speed, *took));
        facts.push(("timer actor", counters(closed)));
        facts
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.airports(f)?;
        f.write_char('\n')?;
        for (name, value) in self.facts {
            writeln!(f, "{name:<21}{value}")?;
        }
        let Findings { problems, repetitions } = self.findings;
        if !repetitions.is_empty() {
            writeln!(f, "\nhandled again after a crash: {}", grouped(repetitions.len() as u64))?;
            repetitions.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        if problems.is_empty() {
            return writeln!(f, "\nchecked against the file: ok");
        }
        writeln!(f, "\nchecked against the file: {} WRONG", grouped(problems.len() as u64))?;
        problems.iter().take(PROBLEMS_LISTED).try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl Report<'_> {
    fn airports(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEADINGS: [&str; 6] = ["airport", "flights", "boarding calls", "cancelled", "rescheduled", "latest lag"];
        row(f, HEADINGS.map(str::to_owned))?;
        let total = std::iter::once(("total", self.total));
        for (name, tally) in self.tallies.iter().map(|(name, tally)| (name.as_str(), tally)).chain(total) {
            let [flights, calls, cancelled, rescheduled] =
                [tally.flights, tally.calls, tally.cancelled, tally.rescheduled].map(grouped);
            row(f, [name.to_owned(), flights, calls, cancelled, rescheduled, span_of_time(tally.latest_lag)])?;
        }
        Ok(())
    }
}

pub(crate) fn facts_of_time(span: Span, speed: Option<Speed>, took: Duration) -> [Fact; 3] {
    let Span { first, last } = span;
    let date = "%F %H:%M UTC";
    let length = span_of_time(last.duration_since(first));
    [
        ("simulated span", format!("{length}, {} to {}", first.strftime(date), last.strftime(date))),
        ("speed", speed.map_or("virtual time".to_owned(), |speed| format!("{speed} times real time"))),
        ("wall time", precise(took)),
    ]
}

pub(crate) fn lag(total: &Tally, speed: Option<Speed>) -> String {
    let replayed = total.latest_lag;
    let Some(speed) = speed else { return span_of_time(replayed) };
    let real = speed.real(replayed.unsigned_abs());
    format!("{} of replayed time, {} of real time", span_of_time(replayed), precise(real))
}

fn row(f: &mut fmt::Formatter<'_>, [name, flights, calls, cancelled, rescheduled, lag]: [String; 6]) -> fmt::Result {
    writeln!(f, "{name:<9}{flights:>9}{calls:>17}{cancelled:>12}{rescheduled:>14}{lag:>16}")
}

fn wheel(depth: usize, inspection: &Snapshot) -> String {
    let buckets = inspection.wheel.levels.first().map_or(0, |level| level.stats.buckets);
    let tick = span_of_time(SignedDuration::try_from(inspection.tick).unwrap_or(SignedDuration::MAX));
    format!("{depth} levels of {buckets} buckets, with ticks of {tick}")
}

fn counters(inspection: &Snapshot) -> String {
    let counters = &inspection.counters;
    let [accepted, delivered, cancelled, dead, returned, pending] = [
        counters.accepted,
        counters.delivered,
        counters.cancelled,
        counters.dead_lettered(),
        counters.returned,
        counters.pending,
    ]
    .map(grouped);
    format!(
        "{accepted} accepted = {delivered} delivered + {cancelled} cancelled + {dead} dead letters + {returned} returned \
         + {pending} pending"
    )
}

/// Formats a span in its two largest units of days, hours, minutes and seconds; below a second in milliseconds.
fn span_of_time(span: SignedDuration) -> String {
    const DAY: i64 = 24 * 60 * 60;
    let (days, seconds) = (span.as_secs() / DAY, span.as_secs() % DAY);
    let parts = [(days, "d"), (seconds / 3600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let parts: Vec<String> = parts
        .iter()
        .skip_while(|(number, _)| *number == 0)
        .take(2)
        .filter(|(number, _)| *number != 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if parts.is_empty() { format!("{} ms", span.subsec_millis()) } else { parts.join(" ") }
}

/// Formats a span in seconds, or in milliseconds if it is shorter than one.
fn precise(span: Duration) -> String {
    if span.as_secs() > 0 {
        format!("{:.2} s", span.as_secs_f64())
    } else {
        format!("{:.2} ms", span.as_secs_f64() * 1000.0)
    }
}

/// Formats 28485 as `28 485`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
