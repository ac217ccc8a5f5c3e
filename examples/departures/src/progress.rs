//! Shows the progress of the replay on stderr.
//!
//! A separate thread draws it, independent of virtual time and of the actors.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use crate::log::Event;
use crate::report::grouped;

/// The progress of the replay.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The number of messages expected from the file.
    expected: u64,
    called: AtomicU64,
    cancelled: AtomicU64,
    rescheduled: AtomicU64,
    /// The date of the replay, in seconds since the Unix epoch.
    date: AtomicI64,
}

impl Progress {
    pub(crate) fn new(expected: u64, first: Timestamp) -> Self {
        let count = AtomicU64::default;
        let date = AtomicI64::new(first.as_second());
        Self { expected, called: count(), cancelled: count(), rescheduled: count(), date }
    }

    pub(crate) fn happened(&self, event: Event, at: Timestamp) {
        let count = match event {
            Event::Called => &self.called,
            Event::Cancelled(_) => &self.cancelled,
            Event::Rescheduled(_) => &self.rescheduled,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.date.store(at.as_second(), Ordering::Relaxed);
    }

    fn line(&self) -> String {
        let [called, cancelled, rescheduled] =
            [&self.called, &self.cancelled, &self.rescheduled].map(|count| count.load(Ordering::Relaxed));
        // After a crash some messages are delivered again.
        let percent = ((called + cancelled + rescheduled) * 100 / self.expected.max(1)).min(100);
        let date = Timestamp::from_second(self.date.load(Ordering::Relaxed)).unwrap_or_default();
        format!(
            "{} {percent:3} %  {} boarding calls, {} cancelled, {} rescheduled",
            date.strftime("%F %H:%M"),
            grouped(called),
            grouped(cancelled),
            grouped(rescheduled)
        )
    }
}

/// Draws the progress while `work` runs, and then once more.
pub(crate) fn shown<R>(progress: &Progress, work: impl FnOnce() -> R) -> R {
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let terminal = stderr().is_terminal();
            let every = Duration::from_millis(if terminal { 100 } else { 2_000 });
            while is_done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                draw(progress, terminal, terminal);
            }
            draw(progress, terminal, false);
        });
        let result = work();
        drop(done);
        result
    })
}

/// Draws a line; on a terminal over the previous one.
fn draw(progress: &Progress, terminal: bool, to_be_continued: bool) {
    let start = if terminal { "\r\x1b[K" } else { "" };
    let end = if to_be_continued { "" } else { "\n" };
    // A closed stderr is no reason to stop.
    let mut stderr = stderr().lock();
    let _ = write!(stderr, "{start}{}{end}", progress.line()).and_then(|()| stderr.flush());
}
