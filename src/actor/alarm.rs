//! Alarms on the real clock.
//!
//! Tokio's timer wakes a task up to two milliseconds late: it rounds up to milliseconds of its own, and so does the
//! system call it waits in. On Linux a timer of the kernel is set besides, which rings within some microseconds. Tokio's
//! stays set: it still rings where the kernel's cannot be had, and it is what moves a clock that is paused later on.

use tokio::time::Instant;

use super::clock::Alarm;

/// Rings when `instant` has come.
pub(super) fn at(instant: Instant) -> Alarm {
    #[cfg(target_os = "linux")]
    if let Some(timer) = kernel::Timer::set(instant) {
        return Box::pin(kernel::first(timer, tokio::time::sleep_until(instant)));
    }
    Box::pin(tokio::time::sleep_until(instant))
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::cell::Cell;
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

    /// A timer of the kernel, as a file that becomes readable.
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        /// `None` if there is nothing to wait for, or the kernel's timer cannot be had.
        pub(super) fn set(instant: Instant) -> Option<Self> {
            let left = instant.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let file =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
            timerfd_settime(&file, TimerfdTimerFlags::empty(), &once_after(left)?).ok()?;
            watched(file).map(Self)
        }
    }

    fn once_after(left: Duration) -> Option<Itimerspec> {
        const NEVER_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let tv_sec = left.as_secs().try_into().ok()?;
        let it_value = Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() };
        Some(Itimerspec { it_interval: NEVER_AGAIN, it_value })
    }

    /// Has tokio watch the file.
    fn watched(file: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
        thread_local! {
            /// The runtime of this thread was made without I/O. Tokio does not tell in any other way than a panic.
            static WITHOUT_IO: Cell<bool> = const { Cell::new(false) };
        }
        if WITHOUT_IO.get() {
            return None;
        }
        // Deprecated for files that are not owned by what is given; this one is.
        #[allow(deprecated)]
        let watched = catch_unwind(|| AsyncFd::with_interest(file, Interest::READABLE).ok());
        WITHOUT_IO.set(watched.is_err());
        watched.ok().flatten()
    }

    /// Whatever rings first.
    pub(super) async fn first(timer: Timer, other: impl Future<Output = ()>) {
        let mut other = pin!(other);
        poll_fn(|cx| match timer.0.poll_read_ready(cx) {
            Poll::Ready(Ok(_)) => Poll::Ready(()),
            Poll::Ready(Err(_)) | Poll::Pending => other.as_mut().poll(cx),
        })
        .await;
    }
}
