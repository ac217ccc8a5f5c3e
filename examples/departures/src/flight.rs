//! A flight, and the times of its events before departure.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The time from the boarding call to the departure.
pub(crate) const BOARDING: SignedDuration = SignedDuration::from_mins(30);
/// The time from the news of a delay to the scheduled departure.
pub(crate) const DELAY_KNOWN: SignedDuration = SignedDuration::from_mins(45);
/// The time from the news of a cancellation to the scheduled departure.
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

/// The outcome of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Cancelled,
    Departed(Timestamp),
}

impl Flight {
    /// Returns the departure if it is later than scheduled.
    pub(crate) fn late_departure(&self) -> Option<Timestamp> {
        match self.outcome {
            Outcome::Departed(at) if at > self.scheduled => Some(at),
            Outcome::Departed(_) | Outcome::Cancelled => None,
        }
    }

    /// Returns the time of the flight's first message.
    pub(crate) fn first_event(&self) -> Timestamp {
        match self.outcome {
            Outcome::Cancelled => self.scheduled - CANCELLATION_KNOWN,
            Outcome::Departed(_) if self.late_departure().is_some() => self.scheduled - DELAY_KNOWN,
            Outcome::Departed(_) => self.scheduled - BOARDING,
        }
    }

    /// Returns the time of the flight's last message.
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
