//! Shows the progress of the replay on stderr.
//!
//! A separate thread draws it, independent of virtual time and of the actors.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
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

/// A thread that draws until it is dropped, and then once more.
pub(crate) struct Display {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    pub(crate) fn of(progress: &Arc<Progress>) -> Self {
        let (stop, stopped) = channel();
        let progress = Arc::clone(progress);
        let draw_until_stopped = move || {
            let terminal = stderr().is_terminal();
            let every = if terminal { Duration::from_millis(100) } else { Duration::from_secs(2) };
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                draw(&progress, terminal, terminal);
            }
            draw(&progress, terminal, false);
        };
        // Without a thread there is no display; the replay continues.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(draw_until_stopped).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Draws a line; on a terminal over the previous one.
fn draw(progress: &Progress, terminal: bool, to_be_continued: bool) {
    let start = if terminal { "\r\x1b[K" } else { "" };
    let end = if to_be_continued { "" } else { "\n" };
    // A closed stderr is no reason to stop.
    let mut stderr = stderr().lock();
    let _ = write!(stderr, "{start}{}{end}", progress.line()).and_then(|()| stderr.flush());
}
