//! A flight, and how long before its departure what happens.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The boarding call is made this long before departure.
pub(crate) const BOARDING: SignedDuration = SignedDuration::from_mins(30);
/// A delay becomes known this long before the scheduled departure.
pub(crate) const DELAY_KNOWN: SignedDuration = SignedDuration::from_mins(45);
/// A cancellation becomes known this long before the scheduled departure.
pub(crate) const CANCELLATION_KNOWN: SignedDuration = SignedDuration::from_mins(60);

/// One line of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Its line in the input, counted from 1.
    pub(crate) line: usize,
    pub(crate) scheduled: Timestamp,
    pub(crate) outcome: Outcome,
    pub(crate) carrier: String,
    pub(crate) number: u32,
    pub(crate) origin: String,
    pub(crate) destination: String,
}

/// What became of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Cancelled,
    Departed(Timestamp),
}

impl Flight {
    /// When it departs, if that is later than scheduled.
    pub(crate) fn late_departure(&self) -> Option<Timestamp> {
        match self.outcome {
            Outcome::Departed(at) if at > self.scheduled => Some(at),
            Outcome::Departed(_) | Outcome::Cancelled => None,
        }
    }

    /// The first moment at which something has to happen because of it.
    pub(crate) fn first_event(&self) -> Timestamp {
        match self.outcome {
            Outcome::Cancelled => self.scheduled - CANCELLATION_KNOWN,
            Outcome::Departed(_) if self.late_departure().is_some() => self.scheduled - DELAY_KNOWN,
            Outcome::Departed(_) => self.scheduled - BOARDING,
        }
    }

    /// The last moment at which something has to happen because of it.
    pub(crate) fn last_event(&self) -> Timestamp {
        match self.outcome {
            Outcome::Cancelled => self.first_event(),
            Outcome::Departed(_) => self.late_departure().unwrap_or(self.scheduled) - BOARDING,
        }
    }
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, scheduled, carrier, number, origin, destination, .. } = self;
        write!(f, "line {line}, {carrier} {number} from {origin} to {destination} at {scheduled}")
    }
}
