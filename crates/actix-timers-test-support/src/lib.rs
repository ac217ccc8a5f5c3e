//! Support for tests of the timer actor: systems in virtual time, a probe actor that records its deliveries and their
//! times, and payloads that count themselves.
//!
//! Time is virtual in one of two ways, and [`in_virtual_time`] runs a test in both:
//!
//! - **paused**: tokio's clock is paused, the timer actor has its default clock. Tokio advances the clock to the next
//!   timer whenever nothing is left to do.
//! - **manual**: the timer actor has a [`ManualClock`], inside a wrapper that counts its alarms. Tokio's paused clock
//!   advances when nothing is left to do; [`World::settle`] waits for that.
//!
//! The verbs are those of the scenarios. *Run to* goes from event to event: every delivery sees the clock at its own
//! due time. *Jump to* sets the clock first and then lets the service run. Times are milliseconds since the start.

#![allow(missing_docs, reason = "internal: for tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::new_without_default, clippy::len_without_is_empty)]

pub mod copies;
#[cfg(feature = "durable")]
pub mod durable;
mod gate;
mod listener;
pub mod own_process;
pub mod repeat;
#[cfg(feature = "durable")]
pub mod store;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::task::{Context as Polling, Poll};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    ActorId, Alarm, CancelOutcome, Clock, ManualClock, RequestTime, Reschedule, RescheduleOutcome, ScheduleAfter,
    ScheduleAt, ScheduleError, SystemClock, Target, TimerActor, TimerActorBuilder, TimerContext, TimerFilter, TimerId,
    TimerKey, TimerOptions, Timers,
};
use tokio::sync::oneshot;

pub use gate::{Gate, Shut};
pub use listener::{Listener, letters, listen};

actix_timers::impl_due_timers!([N: Name] Probe<N>);

/// The time that a test on the real clock waits for an event before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a system on the real clock.
pub fn in_real_time<F: Future>(test: F) -> F::Output {
    with_one_type(test, run_in_real_time)
}

fn run_in_real_time(test: Boxed<'_>) {
    System::new().block_on(test);
}

/// Runs a system whose tokio clock is paused. Fails if virtual time has waited for work that was not there.
pub fn paused<F: Future>(test: F) -> F::Output {
    with_one_type(test, run_paused)
}

fn run_paused(test: Boxed<'_>) {
    let before = actix_timers::integration::given_up_settling();
    System::with_tokio_rt(paused_runtime).block_on(async {
        // A paused clock starts some microseconds after the timer of its runtime, and advances to whole milliseconds of
        // that. From here on the two agree, however long the machine took in between.
        tokio::time::sleep(ms(1)).await;
        test.await;
    });
    assert_eq!(actix_timers::integration::given_up_settling(), before, "virtual time has waited in vain");
}

/// Returns a runtime whose clock is paused.
pub fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

pub(crate) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs a future of any type as one of a single type: the compiler would make a copy of the runtime for each. The
/// function is none inside a generic one, of which there would be copies, too.
pub(crate) fn with_one_type<F: Future>(future: F, run: fn(Boxed<'_>)) -> F::Output {
    let mut output = None;
    run(Box::pin(async { output = Some(future.await) }));
    output.unwrap()
}

/// Runs a test twice, in each kind of virtual time, with a timer actor of these settings installed.
pub fn in_virtual_time<F>(builder: impl Fn() -> TimerActorBuilder, test: impl Fn(World) -> F)
where
    F: Future<Output = ()>,
{
    println!("on tokio's paused clock");
    paused(async { test(World::paused(builder())).await });
    println!("on a manual clock");
    paused(async { test(World::manual(builder())).await });
}

/// Runs a test twice, in each kind of virtual time, with default settings and a probe.
pub fn with_probe<N: Name>(test: impl AsyncFn(World, Addr<Probe<N>>, Log<N>)) {
    in_virtual_time(TimerActor::builder, async |world| {
        let (addr, log) = world.probe();
        test(world, addr, log).await;
    });
}

/// A system in virtual time, with the timer actor of its arbiter.
pub struct World {
    pub timers: Timers,
    pub watch: StopWatch,
    /// The wall-clock time of the start.
    pub wall_start: SystemTime,
}

/// A reader of the virtual clock.
#[derive(Clone)]
pub enum StopWatch {
    Paused(tokio::time::Instant),
    Manual(WatchedClock),
    /// Milliseconds set by the test.
    Source(Arc<AtomicU64>),
}

impl StopWatch {
    /// Returns the milliseconds since the start. Virtual time here is whole milliseconds; a fraction would be a
    /// mistake.
    pub fn now(&self) -> u64 {
        let now = match self {
            Self::Paused(start) => start.elapsed(),
            Self::Manual(clock) => clock.hands.now(),
            Self::Source(millis) => ms(millis.load(Ordering::SeqCst)),
        };
        assert!(now == Duration::MAX || now.subsec_nanos() % 1_000_000 == 0, "whole milliseconds: {now:?}");
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}

impl World {
    pub fn paused(builder: TimerActorBuilder) -> Self {
        let clock = SystemClock::new();
        let wall_start = clock.wall();
        let watch = StopWatch::Paused(tokio::time::Instant::now());
        Self { timers: builder.clock(clock).install().unwrap(), watch, wall_start }
    }

    pub fn manual(builder: TimerActorBuilder) -> Self {
        let clock = WatchedClock::new();
        let wall_start = clock.hands.wall();
        let watch = StopWatch::Manual(clock.clone());
        Self { timers: builder.clock(clock).install().unwrap(), watch, wall_start }
    }

    /// Returns the manual clock, in a manual world only.
    pub fn clock(&self) -> &WatchedClock {
        match &self.watch {
            StopWatch::Manual(clock) => clock,
            _ => panic!("this world has no manual clock"),
        }
    }

    pub fn is_manual(&self) -> bool {
        matches!(self.watch, StopWatch::Manual(_))
    }

    pub fn now(&self) -> u64 {
        self.watch.now()
    }

    /// Returns the wall-clock time `millis` after the start, unless the wall clock is stepped.
    pub fn wall(&self, millis: u64) -> SystemTime {
        self.wall_start + ms(millis)
    }

    /// Lets everything happen that can happen without time passing, as users do.
    pub async fn settle(&self) {
        match &self.watch {
            StopWatch::Paused(_) => actix_timers::testing::settle().await,
            StopWatch::Manual(clock) => {
                idle().await;
                clock.settle().await;
            }
            StopWatch::Source(_) => unreachable!("a world is paused or manual"),
        }
    }

    /// Lets time pass from event to event until `millis`.
    pub async fn run_to(&self, millis: u64) {
        match &self.watch {
            StopWatch::Paused(start) => {
                self.settle().await;
                tokio::time::sleep_until(*start + ms(millis)).await;
            }
            StopWatch::Manual(clock) => loop {
                self.settle().await;
                let now = clock.hands.now();
                match clock.next_alarm() {
                    Some(next) if next <= ms(millis) => {
                        assert!(next > now, "an alarm for {next:?} was not handled by {now:?}");
                        clock.hands.jump(next - now);
                    }
                    _ => {
                        clock.hands.jump(ms(millis) - now);
                        break;
                    }
                }
            },
            StopWatch::Source(_) => unreachable!("a world is paused or manual"),
        }
        self.settle().await;
        assert_eq!(self.now(), millis);
    }

    /// Sets the clock, and then lets the service run.
    pub async fn jump_to(&self, millis: u64) {
        self.slip_to(millis).await;
        self.settle().await;
        assert_eq!(self.now(), millis);
    }

    /// Sets the clock before anything else gets its turn. Earlier messages are still in their mailbox then.
    pub async fn slip_to(&self, millis: u64) {
        let by = ms(millis - self.now());
        match &self.watch {
            StopWatch::Paused(_) => tokio::time::advance(by).await,
            StopWatch::Manual(clock) => clock.hands.jump(by),
            StopWatch::Source(_) => unreachable!("a world is paused or manual"),
        }
    }

    /// Starts a probe.
    pub fn probe<N: Name>(&self) -> (Addr<Probe<N>>, Log<N>) {
        self.probe_with(|_| ())
    }

    /// Starts a probe that was changed before.
    pub fn probe_with<N: Name>(&self, change: impl FnOnce(&mut Probe<N>)) -> (Addr<Probe<N>>, Log<N>) {
        let mut probe = Probe::new(self.watch.clone());
        change(&mut probe);
        let log = probe.log.clone();
        (probe.start(), log)
    }

    /// Schedules a note through [`Timers`].
    pub fn after<N: Name>(&self, target: impl Into<Target<Note<N>>>, delay: u64, name: N) -> TimerId {
        self.timers.schedule_after(target, ms(delay), Note(name))
    }

    /// Schedules a note in one of the three ways.
    pub async fn schedule<N: Name>(
        &self,
        way: Way,
        addr: &Addr<Probe<N>>,
        delay: Duration,
        name: N,
    ) -> Result<TimerId, ScheduleError<Note<N>>> {
        match way {
            Way::Direct => self.timers.timer(addr, TimerOptions::new()).try_schedule(delay, Note(name)),
            Way::Message => self.timers.addr().send(ScheduleAfter::new(addr, delay, Note(name))).await.unwrap(),
            Way::Context => {
                run(addr, move |_, ctx| ctx.timer(TimerOptions::new()).try_schedule(delay, Note(name))).await
            }
        }
    }

    /// Schedules a note for a wall-clock time in one of the three ways.
    pub async fn schedule_at<N: Name>(&self, way: Way, addr: &Addr<Probe<N>>, at: SystemTime, name: N) -> TimerId {
        match way {
            Way::Direct => self.timers.schedule_at(addr, at, Note(name)),
            Way::Message => self.timers.addr().send(ScheduleAt::new(addr, at, Note(name))).await.unwrap().unwrap(),
            Way::Context => run(addr, move |_, ctx| ctx.schedule_at(at, Note(name))).await,
        }
    }

    /// Moves a timer in one of the three ways.
    pub async fn reschedule<N: Name>(
        &self,
        way: Way,
        addr: &Addr<Probe<N>>,
        id: TimerId,
        delay: Duration,
    ) -> RescheduleOutcome {
        match way {
            Way::Direct => self.timers.reschedule_after(id, delay),
            Way::Message => self.timers.addr().send(Reschedule::after(id, delay)).await.unwrap(),
            Way::Context => run(addr, move |_, ctx| ctx.reschedule_timer(id, delay)).await,
        }
    }

    /// Moves a timer to a wall-clock time in one of the three ways.
    pub async fn reschedule_at<N: Name>(
        &self,
        way: Way,
        addr: &Addr<Probe<N>>,
        id: TimerId,
        at: SystemTime,
    ) -> RescheduleOutcome {
        match way {
            Way::Direct => self.timers.reschedule_at(id, at),
            Way::Message => self.timers.addr().send(Reschedule::at(id, at)).await.unwrap(),
            Way::Context => run(addr, move |_, ctx| ctx.reschedule_timer_at(id, at)).await,
        }
    }

    /// Cancels in one of the three ways.
    pub async fn cancel<N: Name>(&self, way: Way, addr: &Addr<Probe<N>>, id: TimerId) -> CancelOutcome {
        match way {
            Way::Direct => self.timers.cancel(id),
            Way::Message => self.timers.addr().send(actix_timers::Cancel(id)).await.unwrap(),
            Way::Context => run(addr, move |_, ctx| ctx.cancel_timer(id)).await,
        }
    }

    pub fn pending(&self) -> u64 {
        let counters = self.timers.snapshot().counters;
        assert!(counters.balance(), "{counters:?}");
        counters.pending
    }

    /// Returns the number of pending timers in a group.
    pub fn group_len(&self, group: &str) -> usize {
        self.timers.list(&TimerFilter::new().group(group)).len()
    }

    /// Returns the first of an actor's timers, own ones and others, that have this key.
    pub fn by_key(&self, actor: impl Into<ActorId>, key: impl Into<TimerKey>) -> Option<TimerId> {
        Some(self.timers.list(&TimerFilter::new().actor(actor).key(key)).first()?.id)
    }
}

/// A probe without addresses, kept alive by a stream of jobs. It stops when this is dropped.
pub struct Recluse<N: Name> {
    jobs: tokio::sync::mpsc::UnboundedSender<Job<N>>,
}

impl<N: Name> Recluse<N> {
    /// Gives a probe the stream, and drops its last address.
    pub async fn make(addr: Addr<Probe<N>>) -> Self {
        let (jobs, mut queue) = tokio::sync::mpsc::unbounded_channel();
        run(&addr, move |_, ctx| {
            ctx.add_stream(futures_util::stream::poll_fn(move |cx| queue.poll_recv(cx)));
        })
        .await;
        Self { jobs }
    }

    /// Runs code in the context of the probe and returns its result.
    pub async fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Probe<N>, &mut Context<Probe<N>>) -> R + Send + 'static,
    ) -> R {
        let (job, answer) = asking(job);
        assert!(self.jobs.send(job).is_ok(), "the probe is alive");
        answer.await.expect("the probe is alive and does not panic")
    }

    /// Blocks the probe as [`block_then`] does.
    pub async fn block_then(&self, then: impl FnOnce(&mut Context<Probe<N>>) + Send + 'static) -> oneshot::Sender<()> {
        let (go, gate) = oneshot::channel();
        self.run(move |_, ctx| wait(ctx, gate, then)).await;
        go
    }
}

impl<N: Name> StreamHandler<Job<N>> for Probe<N> {
    fn handle(&mut self, job: Job<N>, ctx: &mut Self::Context) {
        job(self, ctx);
    }
}

/// Waits until nothing is left to do: only then does tokio advance its paused clock.
pub async fn idle() {
    tokio::time::sleep(ms(1)).await;
}

/// Waits on the real clock until `happened` returns true.
pub async fn eventually(mut happened: impl FnMut() -> bool) {
    let waiting = async {
        while !happened() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it happens in the end");
}

/// Returns the sum over the series of a metric whose labels contain `label`; the page must have some.
pub fn metric(page: &str, name: &str, label: &str) -> f64 {
    let start = format!("actix_timers_{name}{{");
    let value = |line: &str| {
        let (labels, value) = line.strip_prefix(&start)?.rsplit_once(' ')?;
        labels.contains(label).then(|| value.parse::<f64>().unwrap())
    };
    let values = page.lines().filter_map(value);
    values.reduce(|sum, value| sum + value).unwrap_or_else(|| panic!("no {name} with {label}:\n{page}"))
}

/// A way to reach a timer actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// [`Timers`], to a recipient.
    Direct,
    /// A message to the timer actor, to a recipient.
    Message,
    /// The actor's own context, to itself.
    Context,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Direct, Self::Message, Self::Context];
}

/// The name that a note carries.
pub trait Name: Clone + Debug + PartialEq + Send + Unpin + 'static {}

impl<N: Clone + Debug + PartialEq + Send + Unpin + 'static> Name for N {}

/// The message of the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note<N>(pub N);

impl<N: 'static> Message for Note<N> {
    type Result = ();
}

/// A log of the notes that arrived, with the start times of their handlers.
#[derive(Debug)]
pub struct Log<N>(Arc<Mutex<Vec<(N, u64)>>>);

impl<N> Clone for Log<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N> Default for Log<N> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<N: Name> Log<N> {
    pub fn push(&self, name: N, at: u64) {
        self.0.lock().unwrap().push((name, at));
    }

    /// Returns the arrivals since the last call.
    pub fn take(&self) -> Vec<(N, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Returns the names of the arrivals since the last call.
    pub fn names(&self) -> Vec<N> {
        self.take().into_iter().map(|(name, _)| name).collect()
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

type Hook<N> = Box<dyn FnMut(&N, &mut Context<Probe<N>>)>;
type Start<N> = Box<dyn FnMut(&mut Context<Probe<N>>)>;

/// An actor that logs its notes and their times, and runs the code of the test.
pub struct Probe<N: Name> {
    pub log: Log<N>,
    pub watch: StopWatch,
    /// Called for each note, after it was logged.
    pub hook: Hook<N>,
    /// Called at the start of the actor and after every restart.
    pub on_start: Start<N>,
    pub stopped: Arc<AtomicBool>,
}

impl<N: Name> Probe<N> {
    pub fn new(watch: StopWatch) -> Self {
        Self {
            log: Log::default(),
            watch,
            hook: Box::new(|_, _| ()),
            on_start: Box::new(|_| ()),
            stopped: Arc::default(),
        }
    }
}

impl<N: Name> Actor for Probe<N> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        (self.on_start)(ctx);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}

impl<N: Name> Supervised for Probe<N> {}

impl<N: Name> Handler<Note<N>> for Probe<N> {
    type Result = ();

    fn handle(&mut self, Note(name): Note<N>, ctx: &mut Self::Context) {
        self.log.push(name.clone(), self.watch.now());
        (self.hook)(&name, ctx);
    }
}

#[derive(Message, Clone)]
#[rtype(result = "()")]
pub struct Ring;

/// An actor that takes messages and does nothing.
pub struct Bell;

impl Actor for Bell {
    type Context = Context<Self>;
}

impl Handler<Ring> for Bell {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Self::Context) {}
}

/// Starts a probe without a clock.
pub fn probe<N: Name>() -> (Addr<Probe<N>>, Log<N>) {
    let probe = Probe::new(StopWatch::Source(Arc::default()));
    let log = probe.log.clone();
    (probe.start(), log)
}

/// Starts a probe without a clock on an arbiter, where it is changed before.
pub fn probe_on<N: Name>(
    arbiter: &Arbiter,
    change: impl FnOnce(&mut Probe<N>, &mut Context<Probe<N>>) + Send + 'static,
) -> (Addr<Probe<N>>, Log<N>) {
    let log = Log::default();
    let own = log.clone();
    let addr = Probe::start_in_arbiter(&arbiter.handle(), move |ctx| {
        let mut probe = Probe::new(StopWatch::Source(Arc::default()));
        probe.log = own;
        change(&mut probe, ctx);
        probe
    });
    (addr, log)
}

type Job<N> = Box<dyn FnOnce(&mut Probe<N>, &mut Context<Probe<N>>) + Send>;

/// A message that runs code in the context of the probe.
pub struct Run<N: Name>(pub Job<N>);

impl<N: Name> Message for Run<N> {
    type Result = ();
}

impl<N: Name> Handler<Run<N>> for Probe<N> {
    type Result = ();

    fn handle(&mut self, Run(job): Run<N>, ctx: &mut Self::Context) {
        job(self, ctx);
    }
}

/// Blocks a probe: it handles nothing until the returned sender is used or dropped, and its mailbox fills.
pub async fn block<N: Name>(addr: &Addr<Probe<N>>) -> oneshot::Sender<()> {
    block_then(addr, |_| ()).await
}

/// Blocks a probe, which then runs code in its context.
pub async fn block_then<N: Name>(
    addr: &Addr<Probe<N>>,
    then: impl FnOnce(&mut Context<Probe<N>>) + Send + 'static,
) -> oneshot::Sender<()> {
    let (go, gate) = oneshot::channel();
    run(addr, move |_, ctx| wait(ctx, gate, then)).await;
    go
}

/// Makes a probe wait for a signal or its loss, and then run code in its context.
pub fn wait<N: Name>(
    ctx: &mut Context<Probe<N>>,
    gate: oneshot::Receiver<()>,
    then: impl FnOnce(&mut Context<Probe<N>>) + 'static,
) {
    ctx.wait(actix::fut::wrap_future::<_, Probe<N>>(gate).map(|_, _, ctx: &mut Context<Probe<N>>| then(ctx)));
}

/// Runs code in the context of a probe and returns its result.
pub async fn run<N, R>(
    addr: &Addr<Probe<N>>,
    job: impl FnOnce(&mut Probe<N>, &mut Context<Probe<N>>) -> R + Send + 'static,
) -> R
where
    N: Name,
    R: Send + 'static,
{
    let (job, answer) = asking(job);
    addr.do_send(Run(job));
    answer.await.expect("the probe is alive and does not panic")
}

/// Returns a job that sends its result, and the receiver.
fn asking<N: Name, R: Send + 'static>(
    job: impl FnOnce(&mut Probe<N>, &mut Context<Probe<N>>) -> R + Send + 'static,
) -> (Job<N>, oneshot::Receiver<R>) {
    let (answer, question) = oneshot::channel();
    let job: Job<N> = Box::new(move |probe, ctx| {
        let _ = answer.send(job(probe, ctx));
    });
    (job, question)
}

/// A [`ManualClock`] whose readings and alarms are counted.
#[derive(Clone)]
pub struct WatchedClock {
    pub hands: ManualClock,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    reads: AtomicU64,
    made: AtomicU64,
    rung: AtomicU64,
    most_at_once: AtomicU64,
    sleeping: Mutex<BTreeMap<u64, Duration>>,
}

impl WatchedClock {
    pub fn new() -> Self {
        Self::on(ManualClock::new())
    }

    pub fn on(hands: ManualClock) -> Self {
        Self { hands, seen: Arc::default() }
    }

    /// Returns the number of clock readings.
    pub fn reads(&self) -> u64 {
        self.seen.reads.load(Ordering::SeqCst)
    }

    /// Settles; the readings by which it finds that nothing is left do not count.
    async fn settle(&self) {
        let reads = self.reads();
        self.hands.settle().await;
        self.seen.reads.store(reads, Ordering::SeqCst);
    }

    /// Returns the number of alarms set.
    pub fn alarms(&self) -> u64 {
        self.seen.made.load(Ordering::SeqCst)
    }

    /// Returns the number of expired alarms: wake-ups by the service's own sleep.
    pub fn rung(&self) -> u64 {
        self.seen.rung.load(Ordering::SeqCst)
    }

    /// Returns the greatest number of alarms alive at once.
    pub fn most_alarms_at_once(&self) -> u64 {
        self.seen.most_at_once.load(Ordering::SeqCst)
    }

    pub fn next_alarm(&self) -> Option<Duration> {
        self.seen.sleeping.lock().unwrap().values().min().copied()
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Duration {
        self.seen.reads.fetch_add(1, Ordering::SeqCst);
        self.hands.now()
    }

    fn wall(&self) -> SystemTime {
        self.hands.wall()
    }

    fn since(&self, request: RequestTime) -> Duration {
        self.hands.since(request)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let number = self.seen.made.fetch_add(1, Ordering::SeqCst);
        let mut sleeping = self.seen.sleeping.lock().unwrap();
        sleeping.insert(number, time);
        self.seen.most_at_once.fetch_max(sleeping.len() as u64, Ordering::SeqCst);
        drop(sleeping);
        Box::pin(WatchedAlarm { number, alarm: self.hands.alarm(time), seen: Arc::clone(&self.seen) })
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.hands.is_moved_by(clock)
    }
}

/// A manual clock whose wall clock is read by a function.
pub struct ClockWithWall<W>(pub ManualClock, pub W);

impl<W: Fn(&ManualClock) -> SystemTime + Send + Sync + 'static> Clock for ClockWithWall<W> {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> SystemTime {
        (self.1)(&self.0)
    }

    fn since(&self, request: RequestTime) -> Duration {
        self.0.since(request)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.0.alarm(time)
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.0.is_moved_by(clock)
    }
}

struct WatchedAlarm {
    number: u64,
    alarm: Alarm,
    seen: Arc<Seen>,
}

impl Future for WatchedAlarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polling<'_>) -> Poll<()> {
        let polled = self.alarm.as_mut().poll(cx);
        if polled.is_ready() {
            self.seen.rung.fetch_add(1, Ordering::SeqCst);
        }
        polled
    }
}

impl Drop for WatchedAlarm {
    fn drop(&mut self) {
        self.seen.sleeping.lock().unwrap().remove(&self.number);
    }
}

/// The text of deliberate panics.
pub const ON_PURPOSE: &str = "on purpose";

/// Panics, silently if [`count_panics`] was called before.
pub fn panic_on_purpose() {
    std::panic::panic_any(ON_PURPOSE);
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Counts deliberate panics instead of printing them; returns the number that this thread has reported.
pub fn count_panics() -> usize {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() == Some(&ON_PURPOSE) {
                PANICS.set(PANICS.get() + 1);
            } else {
                default(info);
            }
        }));
    });
    PANICS.get()
}

/// A message that runs code when it is dropped.
pub struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

impl OnDrop {
    pub fn new(code: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(code)))
    }

    /// Drops the message without running its code.
    pub fn defuse(mut self) {
        self.0 = None;
    }
}

impl Message for OnDrop {
    type Result = ();
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(code) = self.0.take() {
            code();
        }
    }
}

impl<N: Name> Handler<OnDrop> for Probe<N> {
    type Result = ();

    fn handle(&mut self, message: OnDrop, _: &mut Self::Context) {
        message.defuse();
    }
}

/// A generator of pseudo-random numbers, the same in every run.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D)
    }

    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Returns a number of up to `bits` bits, short ones as likely as long ones.
    pub const fn spread(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits);
        self.below(1 << bits)
    }

    /// Returns an index of a slice.
    pub fn index_of<T>(&mut self, slice: &[T]) -> usize {
        usize::try_from(self.below(slice.len() as u64)).unwrap()
    }

    /// Returns an element of a slice.
    pub fn choose<T: Copy>(&mut self, slice: &[T]) -> T {
        slice[self.index_of(slice)]
    }
}

/// A counter of payloads.
#[derive(Clone, Default)]
pub struct Census {
    made: Arc<AtomicI64>,
    dropped: Arc<AtomicI64>,
}

impl Census {
    pub fn payload(&self) -> Counted {
        self.made.fetch_add(1, Ordering::SeqCst);
        Counted { census: self.clone(), dropped: false }
    }

    pub fn made(&self) -> i64 {
        self.made.load(Ordering::SeqCst)
    }

    pub fn dropped(&self) -> i64 {
        self.dropped.load(Ordering::SeqCst)
    }

    pub fn live(&self) -> i64 {
        self.made() - self.dropped()
    }
}

/// A message that a [`Census`] counts.
pub struct Counted {
    census: Census,
    dropped: bool,
}

impl Message for Counted {
    type Result = ();
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(!std::mem::replace(&mut self.dropped, true), "dropped twice");
        self.census.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl<N: Name> Handler<Counted> for Probe<N> {
    type Result = ();

    fn handle(&mut self, _: Counted, _: &mut Self::Context) {}
}
