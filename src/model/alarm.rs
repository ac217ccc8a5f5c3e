//! Alarms on the real clock.
//!
//! Tokio's timer wakes a task up to two milliseconds late: it rounds up to its own milliseconds, and so does the system
//! call below it; on Windows that waits about 15. On Linux a kernel timer is set besides, which fires within some
//! microseconds. Tokio's timer remains set: it fires where no kernel timer is available, and it advances a clock that is
//! paused later.
//!
//! A driver has a [`TimerSlot`], which keeps its kernel timer from one alarm to the next.

#[cfg(target_os = "linux")]
use std::cell::RefCell;
#[cfg(target_os = "linux")]
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use crate::model::clock::Alarm;

/// Returns an alarm that fires at `instant`. If `tokio_alone`, it uses no kernel timer; it sets this when it finds that
/// the runtime cannot poll one.
pub(crate) fn at(instant: Instant, tokio_alone: &AtomicBool) -> Alarm {
    let by_tokio = tokio::time::sleep_until(instant);
    if tokio_alone.load(Ordering::Relaxed) {
        return Box::pin(by_tokio);
    }
    #[cfg(target_os = "linux")]
    match kernel::Timer::set(instant) {
        Ok(Some(wait)) => return Box::pin(kernel::first(wait, by_tokio)),
        Ok(None) => {}
        Err(kernel::WithoutIo) => tokio_alone.store(true, Ordering::Relaxed),
    }
    Box::pin(by_tokio)
}

/// The kernel timer of a driver while no alarm waits for it. It is closed with the driver.
#[derive(Clone, Default)]
pub(crate) struct TimerSlot {
    #[cfg(target_os = "linux")]
    idle: Rc<RefCell<Option<kernel::Timer>>>,
}

#[cfg(target_os = "linux")]
thread_local! {
    /// The slot of the driver that sets an alarm at present. Between the two is a clock, which may be user code.
    static SLOT: RefCell<Option<TimerSlot>> = const { RefCell::new(None) };
}

impl TimerSlot {
    /// Sets an alarm, with the kernel timer in this slot if there is one.
    pub(crate) fn set(&self, alarm: impl FnOnce() -> Alarm) -> Alarm {
        #[cfg(target_os = "linux")]
        let _during = {
            SLOT.set(Some(self.clone()));
            NoSlot
        };
        alarm()
    }
}

/// Clears [`SLOT`] when it is dropped, even by a panic of a clock.
#[cfg(target_os = "linux")]
struct NoSlot;

#[cfg(target_os = "linux")]
impl Drop for NoSlot {
    fn drop(&mut self) {
        SLOT.set(None);
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::future::{Future, poll_fn};
    use std::os::fd::OwnedFd;
    use std::panic::catch_unwind;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    use crate::model::alarm::{SLOT, TimerSlot};

    /// A kernel timer, as a file that becomes readable.
    pub(crate) struct Timer(AsyncFd<OwnedFd>);

    /// The wait of an alarm for a kernel timer, which returns to its slot afterwards.
    pub(crate) struct Wait {
        /// `None` when the wait is over.
        timer: Option<Timer>,
        slot: Option<TimerSlot>,
        until: Instant,
    }

    /// The runtime was built without I/O and cannot poll a file.
    pub(crate) struct WithoutIo;

    impl Timer {
        /// Returns `None` if `instant` has passed, or the kernel has no timer available at present.
        pub(crate) fn set(instant: Instant) -> Result<Option<Wait>, WithoutIo> {
            let left = instant.saturating_duration_since(Instant::now());
            let Some(setting) = once_after(left).filter(|_| !left.is_zero()) else { return Ok(None) };
            let slot = SLOT.with_borrow(Clone::clone);
            let idle = slot.as_ref().and_then(|slot| slot.idle.take());
            let timer = match idle {
                Some(timer) => timer,
                None => match Self::new()? {
                    Some(timer) => timer,
                    None => return Ok(None),
                },
            };
            let is_set = timerfd_settime(timer.0.get_ref(), TimerfdTimerFlags::empty(), &setting).is_ok();
            Ok(is_set.then(|| Wait { timer: Some(timer), slot, until: instant }))
        }

        fn new() -> Result<Option<Self>, WithoutIo> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            match timerfd_create(TimerfdClockId::Monotonic, flags) {
                Ok(file) => Ok(watched(file)?.map(Self)),
                Err(_) => Ok(None),
            }
        }
    }

    impl Wait {
        fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            let Some(Timer(file)) = &self.timer else { return Poll::Ready(()) };
            while let Ok(mut readable) = ready!(file.poll_read_ready(cx)) {
                readable.clear_ready();
                // Else it was readable since an earlier alarm, or tokio's clock has been paused.
                if Instant::now() >= self.until {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }

        fn end(&mut self) {
            if let (Some(timer), Some(slot)) = (self.timer.take(), &self.slot) {
                slot.idle.replace(Some(timer));
            }
        }
    }

    impl Drop for Wait {
        fn drop(&mut self) {
            self.end();
        }
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
    pub(crate) fn first(mut wait: Wait, other: impl Future<Output = ()>) -> impl Future<Output = ()> {
        let mut other = Box::pin(other);
        poll_fn(move |cx| {
            let first = if wait.poll(cx).is_ready() { Poll::Ready(()) } else { other.as_mut().poll(cx) };
            if first.is_ready() {
                wait.end();
            }
            first
        })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn is_idle(slot: &TimerSlot) -> bool {
        slot.idle.borrow().is_some()
    }

    #[test]
    fn a_kernel_timer_serves_the_alarms_of_its_driver_in_turn() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let soon = || Instant::now() + Duration::from_millis(1);
        let (tokio_alone, slot) = (AtomicBool::new(false), TimerSlot::default());
        let at = |instant| at(instant, &tokio_alone);
        runtime.block_on(async {
            for _ in 0..3 {
                let end = soon();
                let mut alarm = slot.set(|| at(end));
                assert!(!is_idle(&slot), "it is set");
                alarm.as_mut().await;
                assert!(Instant::now() >= end);
                assert!(is_idle(&slot), "a fired alarm has returned it");
            }
            let waiting = slot.set(|| at(soon()));
            assert!(!is_idle(&slot));
            drop(waiting);
            assert!(is_idle(&slot), "an abandoned alarm has returned it");
            let alarm = slot.set(|| at(Instant::now() + Duration::from_secs(3600)));
            assert!(!is_idle(&slot));
            slot.set(|| at(soon())).await;
            at(soon()).await;
            drop(alarm);
            assert!(SLOT.with_borrow(Option::is_none));
        });
    }
}
