//! The lines of all nodes, in one file: each line is one write to its end, so their order is that of the events.
//!
//! A node writes the line of a request after the reply and before it uses it, and the line of a delivery first thing in
//! the handler. A kill loses at most the last event. `asked`, `cancelling` and `moving` come before their requests.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use actix_timers_durable::DurableId;
use serde::{Deserialize, Serialize};

/// An event on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// The durable timers run.
    Started,
    /// A timer with this id and number is about to be scheduled, to be delivered this many times.
    Asked { id: DurableId, number: u64, key: Option<String>, times: u64 },
    /// The timer is stored.
    Scheduled { id: DurableId },
    /// Another timer has the key, and nothing was stored.
    Exists { asked: DurableId, id: DurableId },
    /// The timer is stored in place of another one.
    Replaced { id: DurableId, old: DurableId, in_progress: bool },
    /// Nothing was stored.
    Refused { id: DurableId, why: String },
    /// The effect of the request is unknown.
    Unsure { id: DurableId, why: String },
    /// A timer is about to be cancelled.
    Cancelling { id: DurableId },
    /// The timer is cancelled, and its handler does not run again.
    Cancelled { id: DurableId },
    /// The last delivery of the timer is in progress.
    InProgress { id: DurableId },
    /// Nothing was cancelled.
    NotCancelled { id: DurableId },
    /// Nothing was cancelled, since there is no such timer.
    NotFound { id: DurableId },
    /// A timer is about to be moved, to a time in milliseconds since 1970.
    Moving { id: DurableId, due: u64 },
    /// The timer has its new due time.
    Moved { id: DurableId, due: u64 },
    /// Nothing was moved.
    NotMoved { id: DurableId, due: u64 },
    /// The handler runs.
    Handled { id: DurableId, number: u64, repetition: u64, attempt: u32, due: u64 },
    /// The handler has ended.
    Ended { id: DurableId, repetition: u64, attempt: u32 },
    /// All requests of a node have ended.
    Done,
    /// A drain or stop has ended.
    Stopped,
    /// A call failed that is no request.
    Problem { text: String },
}

/// A line: an event, its node and its time in microseconds since 1970, by the clock of the machine and the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) node: String,
    pub(crate) event: Event,
}

/// Returns microseconds since 1970.
pub(crate) fn micros(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64
}

/// Returns the time of the machine, in a process with a [shifted clock](crate::clocks), too: read without libc.
pub(crate) fn machine_time() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    SystemTime::UNIX_EPOCH + Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The end of the file, for one node.
pub(crate) struct Writer {
    file: File,
    node: String,
}

impl Writer {
    pub(crate) fn open(path: &Path, node: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { file, node: node.to_owned() }
    }

    pub(crate) fn write(&self, event: Event) {
        let line = Line { at: micros(machine_time()), node: self.node.clone(), event };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        // One write: lines of several nodes do not mix.
        let written = (&self.file).write(&text).unwrap();
        assert_eq!(written, text.len());
    }
}

/// The lines so far, read as they are written.
pub(crate) struct Reader {
    file: File,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).read(true).open(path).unwrap();
        Self { file, rest: Vec::new() }
    }

    /// Leaves out the lines so far.
    pub(crate) fn at_end(path: &Path) -> Self {
        let mut reader = Self::open(path);
        reader.file.seek(SeekFrom::End(0)).unwrap();
        reader
    }

    /// Returns the lines written since the last call.
    pub(crate) fn read(&mut self) -> Vec<Line> {
        self.file.read_to_end(&mut self.rest).unwrap();
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let complete: Vec<u8> = self.rest.drain(..end).collect();
        let lines = complete.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}
