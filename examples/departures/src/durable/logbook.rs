//! The log of all starts: an append-only file, or a table of the [database](super::database).
//!
//! A line is written before its handler completes. It survives the death of the process, the subject of this example;
//! to survive a power cut the file would need a sync as well.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::future::ready;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use actix_timers::{CancelOutcome, RescheduleOutcome};
use actix_timers_durable::DueTime;

use crate::log::{Entry, Event, Log};

/// The future of a change.
pub(super) type Written = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// A log to append to, with the time of its place.
pub(super) trait Journal {
    /// Appends a line.
    fn write(&self, entry: Entry) -> Written;

    /// Returns the reason why nothing more can be written.
    fn broken(&self) -> Option<String>;

    /// Makes the timers due now that are due in a range, where the clock alone cannot.
    fn advance(&self, from: DueTime, until: DueTime) -> Written {
        let _ = (from, until);
        Box::pin(ready(Ok(())))
    }
}

/// The events of durable timers, with their words in the log.
const EVENTS: [(Event, &str); 7] = [
    (Event::Called, "called"),
    (Event::Cancelled(CancelOutcome::Cancelled), "cancelled"),
    (Event::Cancelled(CancelOutcome::NotFound), "cancel: not found"),
    (Event::Cancelled(CancelOutcome::InProgress), "cancel: in progress"),
    (Event::Rescheduled(RescheduleOutcome::Rescheduled), "rescheduled"),
    (Event::Rescheduled(RescheduleOutcome::NotFound), "reschedule: not found"),
    (Event::Rescheduled(RescheduleOutcome::InProgress), "reschedule: in progress"),
];

impl Entry {
    pub(super) fn written(&self) -> io::Result<String> {
        let Self { at, flight, attempt, event } = self;
        let known = EVENTS.iter().find(|(known, _)| known == event);
        let (_, word) = known.ok_or_else(|| io::Error::other(format!("{event:?} cannot be written")))?;
        Ok(format!("{at},{flight},{attempt},{word}"))
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split(',').collect();
        let [at, flight, attempt, word] = fields[..] else { return None };
        let (event, _) = EVENTS.iter().find(|(_, known)| *known == word)?;
        Some(Self { at: at.parse().ok()?, flight: flight.parse().ok()?, attempt: attempt.parse().ok()?, event: *event })
    }
}

pub(super) struct Logbook {
    path: PathBuf,
    file: File,
    broken: OnceCell<String>,
}

impl Logbook {
    /// Creates the log. The file must not exist.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new().append(true).create_new(true).open(path).and_then(|file| {
            file.sync_all()?;
            Ok(file)
        });
        let file = file.map_err(|wrong| format!("{}: {wrong}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, broken: OnceCell::new() })
    }

    /// Reads the existing log, to append to it; `None` if there is no file. The process died while it wrote a last line
    /// without an end: this line is removed, since its message will be delivered again.
    pub(super) fn open(path: &Path) -> Result<Option<(Self, Log)>, String> {
        let wrong = |wrong: io::Error| format!("{}: {wrong}", path.display());
        let mut file = match OpenOptions::new().read(true).append(true).open(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(wrong)?,
        };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(wrong)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(wrong)?;
        }
        let line = |(number, line)| {
            Entry::read(line)
                .ok_or_else(|| format!("{}:{}: {line:?} is no line of this log", path.display(), number + 1))
        };
        let lines = text[..whole].lines().enumerate().map(line).collect::<Result<_, _>>()?;
        Ok(Some((Self { path: path.to_owned(), file, broken: OnceCell::new() }, lines)))
    }

    /// Appends a line.
    ///
    /// # Errors
    /// From then on the log is [broken](Journal::broken): nothing may follow a partly written line.
    fn append(&self, entry: &Entry) -> io::Result<()> {
        if let Some(why) = self.broken() {
            return Err(io::Error::other(why));
        }
        let written = entry.written().and_then(|text| (&self.file).write_all(format!("{text}\n").as_bytes()));
        written.inspect_err(|wrong| {
            self.broken.get_or_init(|| format!("{}: {wrong}", self.path.display()));
        })
    }
}

impl Journal for Logbook {
    fn write(&self, entry: Entry) -> Written {
        Box::pin(ready(self.append(&entry)))
    }

    fn broken(&self) -> Option<String> {
        self.broken.get().cloned()
    }
}
