//! The turns of suspects: timers whose budgets were used up by processes that died. They are delivered alone, and get at most half
//! of the time while other timers are due.

use std::time::Duration;

use crate::hints::Hints;
use crate::store::Suspects;

/// Maximum wait of a suspect for the handlers in progress, in which nothing else is claimed. Others run for as long after
/// it, before the suspect is tried again.
pub(super) const ISOLATION: Duration = Duration::from_secs(30);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Alone {
    /// The time at which the present suspect was claimed.
    since: Option<Duration>,
    /// The time since which the next suspect waits for the handlers in progress.
    waits_since: Option<Duration>,
    /// The end of the time that others have after a suspect, or after its wait in vain.
    others_until: Duration,
    /// A handler has exceeded its time-out, and may still run: the end of this process would prove nothing against a
    /// suspect.
    is_unproven: bool,
}

/// The timers that are claimed next.
pub(super) enum Turn {
    /// A suspect, with this treatment.
    Suspect(Suspects),
    /// None: from now on a suspect waits for the handlers in progress, up to [`ISOLATION`].
    WaitBegins,
    /// None: it waits on.
    Waits,
    Others,
}

impl Alone {
    /// Returns whether a suspect is being claimed, or with its handler.
    pub(super) const fn is_under_way(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the timers that are claimed next. `is_idle`: nothing is being claimed, or with its handler.
    pub(super) fn turn(&mut self, now: Duration, hints: &Hints, is_idle: bool) -> Turn {
        if hints.has_suspect() && (now >= self.others_until || !hints.has_others()) {
            if is_idle {
                (self.since, self.waits_since) = (Some(now), None);
                return Turn::Suspect(if self.is_unproven { Suspects::Unmarked } else { Suspects::Marked });
            }
            let Some(since) = self.waits_since else {
                self.waits_since = Some(now);
                return Turn::WaitBegins;
            };
            if now.saturating_sub(since) < ISOLATION {
                return Turn::Waits;
            }
            self.others_until = now.saturating_add(ISOLATION);
        }
        self.waits_since = None;
        Turn::Others
    }

    /// Ends the turn of a suspect, if it is one: others have as much time.
    pub(super) fn end(&mut self, now: Duration) {
        if let Some(since) = self.since.take() {
            self.others_until = now.saturating_add(now.saturating_sub(since));
        }
    }

    /// Notes whether a handler has exceeded its time-out.
    pub(super) const fn note_timeout(&mut self, is_overdue: bool) {
        self.is_unproven |= is_overdue;
    }
}
