//! A simulated thread that runs actors, and a clock that shows virtual time.
//!
//! As in actix, actors are polled in the order of their wake-ups, but without a runtime: `Context::into_future` turns
//! an actor into a future.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use crate::simulation::scheduler::{self, Nanos};
use crate::{Alarm, Clock, RequestTime};

pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A thread that runs actors until it is stopped.
#[derive(Clone)]
pub struct Arbiter(Arc<Shared>);

struct Shared {
    thread: AtomicUsize,
    /// Woken tasks. This lock and these flags are not simulated: the waking thread may hold locks of actix.
    ready: Mutex<VecDeque<usize>>,
    stops: AtomicBool,
}

struct TaskWaker {
    shared: Arc<Shared>,
    index: usize,
    is_ready: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
        }
        self.shared.call();
    }
}

impl Shared {
    fn call(&self) {
        scheduler::unpark(self.thread.load(Ordering::Relaxed));
    }

    fn next(&self) -> Option<usize> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Arbiter {
    /// Starts a thread that runs the tasks made there by `tasks`.
    pub fn start(name: &'static str, tasks: impl FnOnce() -> Vec<Task> + 'static) -> Self {
        let shared =
            Shared { thread: AtomicUsize::new(usize::MAX), ready: Mutex::default(), stops: AtomicBool::new(false) };
        let arbiter = Self(Arc::new(shared));
        let shared = Arc::clone(&arbiter.0);
        let thread = scheduler::spawn(name, move || run(&shared, tasks()));
        arbiter.0.thread.store(thread, Ordering::Relaxed);
        arbiter
    }

    /// Stops the thread: its actors are dropped as soon as nothing is left to do.
    pub fn stop(&self) {
        self.0.stops.store(true, Ordering::Relaxed);
        self.0.call();
    }
}

fn run(shared: &Arc<Shared>, tasks: Vec<Task>) {
    let mut tasks: Vec<Option<Task>> = tasks.into_iter().map(Some).collect();
    let task_waker =
        |index| Arc::new(TaskWaker { shared: Arc::clone(shared), index, is_ready: AtomicBool::new(false) });
    let flags: Vec<_> = (0..tasks.len()).map(task_waker).collect();
    flags.iter().for_each(|flag| Arc::clone(flag).wake());
    loop {
        if let Some(index) = shared.next() {
            flags[index].is_ready.store(false, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(&flags[index]));
            if let Some(task) = &mut tasks[index]
                && task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            {
                tasks[index] = None;
            }
            scheduler::point();
        } else if shared.stops.load(Ordering::Relaxed) {
            return;
        } else {
            scheduler::park(None);
        }
    }
}

/// Runs a future on a thread of a simulation.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(usize);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            scheduler::unpark(self.0);
        }
    }

    let waker = Waker::from(Arc::new(Unpark(scheduler::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        scheduler::park(None);
    }
}

/// A clock that shows the time of the simulation.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock;

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(scheduler::now())
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, _: RequestTime) -> Duration {
        Duration::ZERO
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let time = u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        Box::pin(VirtualAlarm { time, number: None })
    }

    fn wall_is_steady(&self) -> bool {
        true
    }
}

struct VirtualAlarm {
    time: Nanos,
    number: Option<u64>,
}

impl Future for VirtualAlarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if scheduler::now() >= self.time {
            return Poll::Ready(());
        }
        self.number = Some(scheduler::set_alarm(self.time, cx.waker(), self.number));
        Poll::Pending
    }
}

impl Drop for VirtualAlarm {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            scheduler::drop_alarm(self.time, number);
        }
    }
}
