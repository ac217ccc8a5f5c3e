//! Cron expressions.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use croner::JobType;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Maximum length of a gap for which `croner` finds the time after it.
const MAX_GAP_SECONDS: i32 = 7200;
/// Maximum number of changes of a clock among which long gaps are looked for. No zone has as many in the past.
const MAX_CHANGES: usize = 1000;

/// A cron expression in a time zone.
///
/// The five fields are minute, hour, day of month, month and day of week; a sixth in front is seconds, a seventh at the
/// end the year. Each takes `*`, lists (`1,15`), ranges (`9-17`) and steps (`*/5`), months and days of week also names
/// (`MON-FRI`); `L` is the last day, `15W` the weekday nearest to the 15th, `FRI#2` the second Friday. If both days are
/// given, either is enough, as in Unix. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are abbreviations.
///
/// # When clocks change
///
/// If seconds, minutes and hours are one number each, the expression is a time of day: if the clock skips it in spring,
/// it is delivered at the first moment after the gap; if it occurs twice in autumn, only the first counts. Otherwise
/// the expression is an interval: skipped times are skipped, and repeated times are delivered twice. The times of a day
/// that the zone leaves out, as Samoa did on 2011-12-30, are skipped, too, except times of day in its last two hours.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers::Cron;
///
/// let noon: Cron = "0 12 * * *".parse()?;
/// let berlin = noon.clone().in_time_zone("Europe/Berlin")?;
/// let new_year_1970 = SystemTime::UNIX_EPOCH;
/// assert_eq!(noon.next_after(new_year_1970), Some(new_year_1970 + Duration::from_secs(12 * 3600)));
/// assert_eq!(berlin.next_after(new_year_1970), Some(new_year_1970 + Duration::from_secs(11 * 3600)));
/// # Ok::<(), actix_timers::CronError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    expression: croner::Cron,
    zone: TimeZone,
}

/// The error of creating a [`Cron`] from invalid text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// The expression is invalid.
    #[error(
        "{expression:?} is not a cron expression: {reason}; five to seven fields are needed, as in \"0 9 * * MON-FRI\""
    )]
    Expression {
        /// The expression.
        expression: String,
        /// The error in it.
        reason: String,
    },
    /// The time zone is unknown.
    #[error("the time zone {0:?} is not known: give a name of the IANA database, as \"Europe/Berlin\" or \"UTC\"")]
    TimeZone(String),
}

impl Cron {
    /// Parses an expression, in UTC.
    ///
    /// # Errors
    /// [`CronError::Expression`] if it is invalid.
    pub fn new(expression: &str) -> Result<Self, CronError> {
        let rejected = |error: croner::errors::CronError| CronError::Expression {
            expression: expression.to_owned(),
            reason: error.to_string(),
        };
        Ok(Self { expression: croner::Cron::from_str(expression).map_err(rejected)?, zone: TimeZone::UTC })
    }

    /// Returns the same expression in another time zone, by its name in the IANA database: the system's database or, if
    /// missing, the one compiled in.
    ///
    /// # Errors
    /// [`CronError::TimeZone`] if there is no such zone.
    pub fn in_time_zone(self, name: &str) -> Result<Self, CronError> {
        let zone = TimeZone::get(name).map_err(|_| CronError::TimeZone(name.to_owned()))?;
        Ok(Self { zone, ..self })
    }

    /// Returns the same expression in the time zone of the system; UTC if none is set.
    #[must_use]
    pub fn in_system_time_zone(self) -> Self {
        Self { zone: TimeZone::system(), ..self }
    }

    /// Returns the next time of the expression after `time`; `None`, after a search of 20 to 300 ms, if there is none
    /// up to the year 5000.
    pub fn next_after(&self, time: SystemTime) -> Option<SystemTime> {
        let after = Timestamp::try_from(time).ok()?;
        let find = |from: Timestamp, inclusive| {
            self.expression.find_next_occurrence(&from.to_zoned(self.zone.clone()), inclusive).ok()
        };
        // A time in a long gap ends the search: it continues behind the gap.
        let next = find(after, false).or_else(|| self.long_gaps(after).find_map(|end| find(end, true)));
        let next = next.map(|next| next.timestamp());
        Some(self.time_of_day_in_gap(after, next).or(next)?.into())
    }

    /// Returns the end of the first gap before `next` that skips the time of day. `croner` forgets the time if the day ends
    /// with the gap.
    fn time_of_day_in_gap(&self, after: Timestamp, next: Option<Timestamp>) -> Option<Timestamp> {
        if self.expression.determine_job_type() != JobType::FixedTime {
            return None;
        }
        let mut offset = self.zone.to_offset(after);
        let changes = self.zone.following(after).take(MAX_CHANGES).map(|change| (change.timestamp(), change.offset()));
        // The time of day found last: gaps before it skip none.
        let mut found = None;
        let mut before_next = changes.take_while(|(at, _)| next.is_none_or(|next| *at < next));
        let skips = |(at, behind): &(Timestamp, Offset)| {
            let before = std::mem::replace(&mut offset, *behind);
            let length = (offset.seconds() - before.seconds()).min(MAX_GAP_SECONDS);
            let end = offset.to_datetime(*at);
            let start = end.checked_sub(SignedDuration::from_secs(length.into()));
            let Some(start) = start.ok().filter(|_| length > 0) else { return false };
            if found.is_none_or(|found| found < start) {
                found = Some(self.expression.find_next_occurrence(&start, true).unwrap_or(DateTime::MAX));
            }
            found.is_some_and(|found| found < end)
        };
        before_next.find(skips).map(|(at, _)| at)
    }

    /// Returns the ends of the gaps that are too long for a search.
    fn long_gaps(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        let mut offset = self.zone.to_offset(after);
        let changes = self.zone.following(after).take(MAX_CHANGES);
        changes.filter_map(move |change| {
            let before = std::mem::replace(&mut offset, change.offset());
            (offset.seconds() - before.seconds() > MAX_GAP_SECONDS).then(|| change.timestamp())
        })
    }

    /// Returns the expression, as accepted by [`new`](Self::new).
    pub fn expression(&self) -> &str {
        self.expression.as_str()
    }

    /// Returns the name of the time zone, as accepted by [`in_time_zone`](Self::in_time_zone); `None` if the zone of
    /// the system has no name.
    pub fn time_zone(&self) -> Option<&str> {
        self.zone.iana_name()
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(expression: &str) -> Result<Self, CronError> {
        Self::new(expression)
    }
}

/// Prints the expression and the zone.
impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.expression.as_str(), self.zone.iana_name().unwrap_or("local time"))
    }
}
