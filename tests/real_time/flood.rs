//! An actor that is flooded, and tools to observe it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::Counters;
use actix_timers::{TimerContext, TimerId, Timers};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns the counters, once all actors have had their turn.
pub(crate) async fn settled(timers: &Timers) -> Counters {
    tokio::time::sleep(ms(30)).await;
    timers.snapshot().counters
}

/// A message of a timer: its delay and its index in the order of scheduling.
#[derive(Message, Debug, Clone, Copy)]
#[rtype(result = "()")]
pub(crate) struct Due {
    pub(crate) delay: u64,
    pub(crate) index: usize,
}

#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) delay: u64,
    pub(crate) index: usize,
    /// Since it was scheduled.
    pub(crate) passed: Duration,
}

pub(crate) type Log = Arc<Mutex<Vec<Delivered>>>;
type Act = Box<dyn FnMut(&mut Flooded, &mut Context<Flooded>) + Send>;

/// An actor whose mailbox does not become empty during the flood.
pub(crate) struct Flooded {
    began: Instant,
    log: Log,
    plan: Option<fn(&mut Flooded, &mut Context<Flooded>)>,
    pub(crate) ids: Vec<TimerId>,
    pub(crate) on_due: Option<Act>,
    scheduled: usize,
}

impl Flooded {
    /// Creates an actor that schedules its timers by this plan when it starts.
    pub(crate) fn new(plan: fn(&mut Flooded, &mut Context<Flooded>)) -> Self {
        Self {
            began: Instant::now(),
            log: Log::default(),
            plan: Some(plan),
            ids: Vec::new(),
            on_due: None,
            scheduled: 0,
        }
    }

    /// Schedules a closure that is logged like a message.
    pub(crate) fn run_after(&mut self, ctx: &mut Context<Self>, delay: u64) {
        let due = Due { delay, index: self.scheduled };
        self.scheduled += 1;
        self.ids.push(ctx.run_after(ms(delay), move |actor: &mut Self, ctx| actor.handle(due, ctx)));
    }

    pub(crate) fn delivered(&self) -> Log {
        Arc::clone(&self.log)
    }

    pub(crate) fn after(&mut self, ctx: &mut Context<Self>, delay: u64) {
        let due = Due { delay, index: self.scheduled };
        self.scheduled += 1;
        self.ids.push(ctx.schedule_after(ms(delay), due));
    }

    /// Starts and floods the actor, waits for the end of the flood and of its timers, and returns the deliveries.
    pub(crate) async fn run(self, flood: &Flood) -> Vec<Delivered> {
        let log = self.delivered();
        let addr = self.start();
        flood.on(&addr);
        while !flood.ended() || Timers::current().unwrap().snapshot().pending() > 0 {
            tokio::time::sleep(ms(1)).await;
        }
        tokio::time::sleep(ms(50)).await;
        drop(addr);
        let mut log = log.lock().unwrap();
        std::mem::take(&mut log)
    }
}

impl Actor for Flooded {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.began = Instant::now();
        if let Some(plan) = self.plan.take() {
            plan(self, ctx);
        }
    }
}

actix_timers::impl_due_timers!(Flooded);

impl Handler<Due> for Flooded {
    type Result = ();

    fn handle(&mut self, due: Due, ctx: &mut Self::Context) {
        let Due { delay, index } = due;
        self.log.lock().unwrap().push(Delivered { delay, index, passed: self.began.elapsed() });
        if let Some(mut act) = self.on_due.take() {
            act(self, ctx);
            self.on_due = Some(act);
        }
    }
}

/// Messages that keep a mailbox from becoming empty until a condition holds or 20 s are over.
#[derive(Clone)]
pub(crate) struct Flood {
    until: Arc<dyn Fn() -> bool + Send + Sync>,
    limit: Instant,
    ended: Arc<AtomicBool>,
    in_time: Arc<AtomicBool>,
}

impl Flood {
    pub(crate) fn until(until: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            until: Arc::new(until),
            limit: Instant::now() + Duration::from_secs(20),
            ended: Arc::default(),
            in_time: Arc::default(),
        }
    }

    /// Starts the flood, from this thread and from another one.
    pub(crate) fn on(&self, addr: &Addr<Flooded>) {
        addr.do_send(Wave(self.clone(), true));
        let (addr, flood) = (addr.downgrade(), self.clone());
        std::thread::spawn(move || {
            while !flood.ended() && flood.limit > Instant::now() {
                let Some(addr) = addr.upgrade() else { return };
                let _ = addr.try_send(Wave(flood.clone(), false));
                std::thread::sleep(Duration::from_micros(200));
            }
        });
    }

    pub(crate) async fn over(&self) {
        while !self.ended() {
            tokio::time::sleep(ms(1)).await;
        }
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether the flood ended because its condition held.
    pub(crate) fn ended_in_time(&self) -> bool {
        self.in_time.load(Ordering::Acquire)
    }
}

/// One message of a flood; a lasting one puts itself back into the mailbox, which so never becomes empty.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wave(Flood, bool);

impl Handler<Wave> for Flooded {
    type Result = ();

    fn handle(&mut self, Wave(flood, lasts): Wave, ctx: &mut Self::Context) {
        if !lasts {
            return;
        }
        if (flood.until)() {
            flood.in_time.store(true, Ordering::Release);
            flood.ended.store(true, Ordering::Release);
        } else if flood.limit < Instant::now() {
            flood.ended.store(true, Ordering::Release);
        } else {
            ctx.address().do_send(Wave(flood, true));
        }
    }
}

/// The metrics of the timer actors that are started while it records.
#[derive(Clone)]
pub(crate) struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

impl Default for Metrics {
    fn default() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        Self { handle: recorder.handle(), recorder: Arc::new(recorder) }
    }
}

impl Metrics {
    pub(crate) fn record(&self, run: impl FnOnce()) {
        metrics::with_local_recorder(&*self.recorder, run);
    }

    pub(crate) fn wakeups_of_the_watchdog(&self) -> f64 {
        let page = self.handle.render();
        let lines =
            page.lines().filter(|line| line.starts_with("actix_timers_wakeups_total") && line.contains("watch"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}
