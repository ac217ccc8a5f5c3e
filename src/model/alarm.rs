//! Alarms on the real clock.
//!
//! Tokio's timer wakes a task up to two milliseconds late: it rounds up to its own milliseconds, and so does the system
//! call below it. On Linux a kernel timer is set besides, which fires within some microseconds. Tokio's timer remains
//! set: it fires where no kernel timer is available, and it advances a clock that is paused later.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use crate::model::clock::Alarm;

/// The source of all alarms of one clock.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// The kernel timer is unwanted or unavailable.
    tokio_alone: AtomicBool,
}

impl Alarms {
    /// Uses the kernel timer, if available, or tokio's alone.
    pub(crate) const fn new(tokio_alone: bool) -> Self {
        Self { tokio_alone: AtomicBool::new(tokio_alone) }
    }

    /// Returns an alarm that fires at `instant`.
    pub(crate) fn at(&self, instant: Instant) -> Alarm {
        #[cfg(target_os = "linux")]
        if !self.tokio_alone.load(Ordering::Relaxed) {
            match kernel::Timer::set(instant) {
                Ok(Some(timer)) => return Box::pin(kernel::first(timer, tokio::time::sleep_until(instant))),
                Ok(None) => {}
                Err(kernel::WithoutIo) => self.tokio_alone.store(true, Ordering::Relaxed),
            }
        }
        Box::pin(tokio::time::sleep_until(instant))
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::future::{Future, poll_fn};
    use std::os::fd::OwnedFd;
    use std::panic::catch_unwind;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    /// A kernel timer, as a file that becomes readable.
    pub(crate) struct Timer(AsyncFd<OwnedFd>);

    /// The runtime was built without I/O and cannot poll a file.
    pub(crate) struct WithoutIo;

    impl Timer {
        /// Returns `None` if `instant` has passed, or the kernel has no timer available at present.
        pub(crate) fn set(instant: Instant) -> Result<Option<Self>, WithoutIo> {
            match running_until(instant) {
                Some(file) => Ok(watched(file)?.map(Self)),
                None => Ok(None),
            }
        }
    }

    fn running_until(instant: Instant) -> Option<OwnedFd> {
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
        timerfd_settime(&file, TimerfdTimerFlags::empty(), &once_after(left)?).ok()?;
        Some(file)
    }

    fn once_after(left: Duration) -> Option<Itimerspec> {
        const NEVER_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let tv_sec = left.as_secs().try_into().ok()?;
        let it_value = Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() };
        Some(Itimerspec { it_interval: NEVER_AGAIN, it_value })
    }

    /// Registers the file with tokio. Tokio reports a missing I/O driver only by a panic.
    fn watched(file: OwnedFd) -> Result<Option<AsyncFd<OwnedFd>>, WithoutIo> {
        // Deprecated for files that the argument does not own; this one does.
        #[allow(deprecated)]
        let watched = catch_unwind(|| AsyncFd::with_interest(file, Interest::READABLE).ok());
        watched.map_err(|_| WithoutIo)
    }

    /// Waits for the first of both.
    pub(crate) async fn first(timer: Timer, other: impl Future<Output = ()>) {
        let mut other = pin!(other);
        poll_fn(|cx| match timer.0.poll_read_ready(cx) {
            Poll::Ready(Ok(_)) => Poll::Ready(()),
            Poll::Ready(Err(_)) | Poll::Pending => other.as_mut().poll(cx),
        })
        .await;
    }
}
