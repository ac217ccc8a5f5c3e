//! The warnings for a subscriber of `tracing`, in virtual time: once, and then at most every ten seconds.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    MailboxPolicy, Target, TimerActor, TimerActorBuilder, TimerContext, TimerFilter, TimerInfo, TimerOptions, Timers,
};
use support::{Note, OnDrop, Probe, World, block, count_panics, ms, panic_on_purpose, paused, run};
use tokio::sync::oneshot;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context as Layering, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::Text;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

const NEARLY_FULL: &str = "the capacity is nearly used up";
const FULL: &str = "timers were rejected: the capacity is used up";
const LATE: &str = "the driver is late";
const MISSING: &str = "the driver is blocked, the watchdog runs instead";
const STEPPED: &str = "the wall clock was stepped";
const STUCK: &str = "a recipient does not take its messages";
const PANICKED: &str = "a panic of user code was caught";
const MANY: &str = "many timer actors run in this process";
const LOST: &str = "a message was lost without a timer actor";
const DEAD: &str = "a message became a dead letter";
const DURABLE_DEAD: &str = "a durable message became a dead letter";

/// Records all warnings.
#[derive(Clone, Default)]
struct Witness {
    seen: Arc<Mutex<Vec<String>>>,
    /// Queried in the middle of each warning, as a subscriber may do.
    timers: Arc<Mutex<Option<Timers>>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Witness {
    fn on_event(&self, event: &Event<'_>, _: Layering<'_, S>) {
        self.seen.lock().unwrap().push(Text::of(event));
        // User code, as this is, may use timers: no lock is held while it is called.
        let timers = self.timers.lock().unwrap().clone();
        if let Some(timers) = timers {
            assert!(timers.snapshot().counters.balance());
            timers.list(&TimerFilter::new());
        }
    }
}

impl Witness {
    /// Returns the warnings with this text since the last call.
    fn take(&self, text: &str) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap();
        seen.extract_if(.., |warning| warning.contains(&format!("message={text} "))).collect()
    }

    /// Asserts that the one warning with this text since the last call has all of these fields.
    fn the(&self, text: &str, fields: &[&str]) {
        let taken = self.take(text);
        assert_eq!(taken.len(), 1, "{text}: {taken:?}");
        for field in fields {
            assert!(taken[0].contains(&format!("{field} ")), "{field}: {}", taken[0]);
        }
    }

    /// Asserts that all warnings since the last call were taken.
    fn nothing_else(&self) {
        assert_eq!(std::mem::take(&mut *self.seen.lock().unwrap()), Vec::<String>::new());
    }
}

/// Returns a witness of what this thread reports up to a level while the guard lives.
fn witness_up_to(most: LevelFilter) -> (Witness, DefaultGuard) {
    let witness = Witness::default();
    let layer = witness.clone().with_filter(most);
    (witness, tracing::subscriber::set_default(Registry::default().with(layer)))
}

/// Runs a test in both kinds of virtual time, with a witness of the warnings.
fn witnessed<F: Future<Output = ()>>(builder: fn() -> TimerActorBuilder, test: impl Fn(World, Witness) -> F) {
    let _alone = super::alone();
    for world in [World::paused, World::manual] {
        paused(async {
            let world = world(builder());
            let (witness, _guard) = witness_up_to(LevelFilter::WARN);
            *witness.timers.lock().unwrap() = Some(world.timers.clone());
            test(world, witness.clone()).await;
            witness.nothing_else();
            *witness.timers.lock().unwrap() = None;
        });
    }
}

fn of_ten() -> TimerActorBuilder {
    TimerActor::builder().name("of ten").capacity(10)
}

#[test]
fn of_a_capacity_that_is_nearly_used_up_when_it_gets_so() {
    witnessed(of_ten, |world, witness| async move {
        let (addr, _log) = world.probe();
        let mut ids: Vec<_> = (0..7).map(|name| world.after(&addr, HOUR, name)).collect();
        world.settle().await;
        witness.nothing_else();
        ids.push(world.after(&addr, HOUR, 7));
        world.settle().await;
        witness.the(NEARLY_FULL, &["timer=\"of ten\"", "pending=8", "capacity=10", "suppressed=0"]);
        world.after(&addr, HOUR, 8);
        world.run_to(MINUTE).await;
        witness.nothing_else();
        // There is room again, and then there is none, three times. The driver notices when it publishes.
        for round in 0..3 {
            ids.drain(..3).for_each(|id| assert!(world.timers.cancel(id).is_cancelled()));
            world.run_to(MINUTE + round * SECOND + 500).await;
            ids.extend((0..3).map(|name| world.after(&addr, HOUR, name)));
            world.run_to(MINUTE + round * SECOND + SECOND).await;
        }
        witness.the(NEARLY_FULL, &["suppressed=0"]);
        world.timers.cancel_all_for(&addr);
        world.run_to(2 * MINUTE).await;
        (0..8).for_each(|name| _ = world.after(&addr, HOUR, name));
        world.settle().await;
        witness.the(NEARLY_FULL, &["suppressed=2"]);
    });
}

/// No driver is left that could emit it.
#[test]
fn of_a_message_for_a_timer_actor_that_has_stopped() {
    let _alone = super::alone();
    let (witness, _guard) = witness_up_to(LevelFilter::WARN);
    let (timers, addr) = support::in_real_time(async {
        let world = World::manual(TimerActor::builder().name("stopped"));
        (world.timers.clone(), world.probe::<u32>().0)
    });
    (0..3).for_each(|name| _ = timers.schedule_after(&addr, ms(10), Note(name)));
    witness.the(DEAD, &["timer=\"stopped\"", "reason=\"rejected\"", "suppressed=0"]);
    witness.nothing_else();
}

#[test]
fn of_timers_that_were_rejected() {
    witnessed(of_ten, |world, witness| async move {
        let (addr, _log) = world.probe();
        (0..10).for_each(|name| _ = world.after(&addr, HOUR, name));
        let reject = || assert!(world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(11)).is_err());
        reject();
        reject();
        world.settle().await;
        witness.the(NEARLY_FULL, &["pending=10"]);
        witness.the(FULL, &["rejected=2", "capacity=10"]);
        for _ in 0..3 {
            reject();
            world.settle().await;
        }
        witness.nothing_else();
        world.run_to(10 * SECOND).await;
        reject();
        world.settle().await;
        witness.the(FULL, &["rejected=4"]);
    });
}

/// Schedules messages due after 100 ms.
type Schedule = fn(&World, &Addr<Probe<u32>>);

/// The ways of messages that remain with the timer actor.
const WAYS: [Schedule; 4] = [
    |world, addr| (1..=2).for_each(|name| _ = world.after(Target::tracked(addr), 100, name)),
    |world, addr| (1..=2).for_each(|name| _ = world.after(Target::tracked(addr).window(1), 100, name)),
    // The first is in the mailbox, and so delivered.
    |world, addr| (1..=2).for_each(|name| _ = world.after(Target::from(addr).window(1), 100, name)),
    |world, addr| (0..40).for_each(|name| _ = world.after(Target::from(addr).window(16), 100, name)),
];

#[test]
fn of_a_recipient_that_does_not_take_its_messages() {
    for way in WAYS {
        witnessed(TimerActor::builder, |world, witness| async move {
            let (addr, log) = world.probe();
            way(&world, &addr);
            let answer = block(&addr).await;
            world.run_to(100 + 10 * SECOND - 1).await;
            witness.nothing_else();
            world.run_to(100 + 10 * SECOND).await;
            let first = witness.take(STUCK);
            assert_eq!(first.len(), 1);
            assert!(first[0].contains("waited_seconds=10.0 ") && first[0].contains("Note<u32>"), "{}", first[0]);
            let waiting = world.timers.list(&TimerFilter::new());
            let is_it = |timer: &&TimerInfo| first[0].contains(&format!("id={} ", timer.id));
            assert_eq!(waiting.iter().filter(is_it).count(), 1, "it waits: {first:?}");
            // Whenever the time has doubled.
            for seconds in [20, 40, 80] {
                world.run_to(100 + seconds * SECOND - 1).await;
                witness.nothing_else();
                world.run_to(100 + seconds * SECOND).await;
                witness.the(STUCK, &[&format!("waited_seconds={seconds}.0")]);
            }
            drop(answer);
            world.run_to(200 * SECOND).await;
            assert!(log.len() >= 2);
            world.run_to(HOUR).await;
            assert_eq!(world.pending(), 0);
        });
    }
}

#[test]
fn of_an_actor_that_does_not_take_its_own_messages() {
    witnessed(TimerActor::builder, |world, witness| async move {
        let (addr, log) = world.probe();
        let id = run(&addr, |_, ctx| ctx.schedule_after(ms(100), Note(1))).await;
        run(&addr, |_, ctx| ctx.schedule_after(ms(200), Note(2))).await;
        world.after(&addr, 300, 3);
        let answer = block(&addr).await;
        world.run_to(100 + 10 * SECOND - 1).await;
        witness.nothing_else();
        world.run_to(100 + 10 * SECOND).await;
        witness.the(STUCK, &[&format!("id={id}"), "waited_seconds=10.0", "behind=1"]);
        // The first is cancelled: the second has waited nearly as long, so there is no new warning.
        assert!(world.timers.cancel(id).is_cancelled());
        world.run_to(19 * SECOND).await;
        witness.nothing_else();
        drop(answer);
        world.run_to(MINUTE).await;
        assert_eq!(log.names(), [3, 2]);
        // The same situation again is a new warning.
        run(&addr, |_, ctx| ctx.schedule_after(ms(1), Note(4))).await;
        let _answer = block(&addr).await;
        world.run_to(MINUTE + 11 * SECOND).await;
        witness.the(STUCK, &["behind=0"]);
    });
}

/// Among any number of recipients, the one that has waited longest, and when that continues, the next.
#[test]
fn of_the_recipient_that_lets_wait_longest() {
    const ACTORS: u32 = 5;
    witnessed(TimerActor::builder, |world, witness| async move {
        let mut stuck = Vec::new();
        for number in (0..ACTORS).rev() {
            let (addr, _log) = world.probe();
            let delay = ms(100 * u64::from(number) + 100);
            let id = run(&addr, move |_, ctx| ctx.schedule_after(delay, Note(number))).await;
            stuck.push((block(&addr).await, id, addr));
        }
        for number in 0..u64::from(ACTORS) {
            let now = 100 + 10 * SECOND * (number + 1);
            world.run_to(now - 1).await;
            witness.nothing_else();
            world.run_to(now).await;
            let (answer, id, addr) = stuck.pop().unwrap();
            let waited = now - 100 * (number + 1);
            witness.the(STUCK, &[&format!("id={id}"), &format!("waited_seconds={:?}", waited as f64 / 1e3)]);
            drop((answer, addr));
        }
    });
}

#[test]
fn of_the_one_that_is_stuck_and_not_of_one_that_goes_on() {
    witnessed(TimerActor::builder, |world, witness| async move {
        let (again, waiting) = oneshot::channel::<()>();
        let mut waiting = Some(waiting);
        let (slow, log) = world.probe_with(|probe| {
            // Waits once more after its first message.
            probe.hook = Box::new(move |_, ctx| {
                let waiting = waiting.take().unwrap();
                ctx.wait(actix::fut::wrap_future(async { _ = waiting.await }));
            });
        });
        for (delay, name) in [(100, 1), (5_000, 2)] {
            run(&slow, move |_, ctx| _ = ctx.schedule_after(ms(delay), Note(name))).await;
        }
        let first = block(&slow).await;
        let (stuck, _log) = world.probe();
        let id = run(&stuck, |_, ctx| ctx.schedule_after(ms(200), Note(3))).await;
        let _answer = block(&stuck).await;
        world.run_to(6 * SECOND).await;
        drop(first);
        world.settle().await;
        assert_eq!(log.names(), [1]);
        world.run_to(200 + 10 * SECOND).await;
        witness.the(STUCK, &[&format!("id={id}"), "waited_seconds=10.0"]);
        drop(again);
    });
}

#[test]
fn of_recipients_that_are_stuck_after_another_time() {
    let hour = || TimerActor::builder().stuck_after(Duration::from_millis(HOUR));
    let never = || TimerActor::builder().stuck_after(Duration::MAX);
    for (builder, warns) in [(hour as fn() -> TimerActorBuilder, true), (never, false)] {
        witnessed(builder, |world, witness| async move {
            let (addr, _log) = world.probe();
            run(&addr, |_, ctx| ctx.schedule_after(ms(100), Note(1))).await;
            let _answer = block(&addr).await;
            world.run_to(100 + HOUR - 1).await;
            witness.nothing_else();
            world.run_to(100 + HOUR).await;
            if warns {
                witness.the(STUCK, &["waited_seconds=3600.0"]);
            }
        });
    }
}

#[test]
fn of_a_driver_that_is_late() {
    witnessed(TimerActor::builder, |world, witness| async move {
        let (addr, log) = world.probe();
        world.after(&addr, 10, 1);
        world.jump_to(SECOND).await;
        assert_eq!(log.len(), 1);
        witness.nothing_else();
        for round in 0..3 {
            world.after(&addr, 10, 1);
            world.jump_to(SECOND + 1_010 * (round + 1)).await;
        }
        witness.the(LATE, &["late_seconds=1.0", "suppressed=0"]);
        world.run_to(MINUTE).await;
        world.after(&addr, 10, 1);
        world.jump_to(MINUTE + HOUR).await;
        witness.the(LATE, &["late_seconds=3599.99", "suppressed=2"]);
    });
}

#[test]
fn of_a_wall_clock_that_was_stepped() {
    witnessed(TimerActor::builder, |world, witness| async move {
        if !world.is_manual() {
            return;
        }
        let (addr, _log) = world.probe();
        world.timers.schedule_at(&addr, world.wall(HOUR), Note(1));
        world.settle().await;
        let hands = &world.clock().hands;
        hands.set_wall(hands.wall() + ms(900));
        world.settle().await;
        witness.nothing_else();
        hands.set_wall(hands.wall() + Duration::from_secs(90));
        world.settle().await;
        witness.the(STEPPED, &["step_seconds=90.0", "suppressed=0"]);
        for _ in 0..2 {
            hands.set_wall(hands.wall() - Duration::from_secs(30));
            world.settle().await;
        }
        witness.nothing_else();
        world.run_to(10 * SECOND).await;
        hands.set_wall(hands.wall() - Duration::from_secs(5));
        world.settle().await;
        witness.the(STEPPED, &["step_seconds=-5.0", "suppressed=2"]);
    });
}

#[test]
fn of_panics_of_user_code_that_were_caught() {
    count_panics();
    witnessed(TimerActor::builder, |world, witness| async move {
        let (addr, _log) = world.probe::<u32>();
        let panics = || {
            let id = world.timers.schedule_after(&addr, ms(HOUR), OnDrop::new(panic_on_purpose));
            assert!(world.timers.cancel(id).is_cancelled());
        };
        panics();
        world.settle().await;
        witness.the(PANICKED, &["panics=1", "panic=\"on purpose\""]);
        (0..3).for_each(|_| panics());
        world.settle().await;
        witness.nothing_else();
        world.run_to(10 * SECOND).await;
        panics();
        world.settle().await;
        witness.the(PANICKED, &["panics=4"]);
    });
}

/// The answer goes to the reply waiter, not to the actor that scheduled the message.
#[test]
fn of_panics_while_answers_are_dropped() {
    struct Slow;
    #[derive(Message)]
    #[rtype(result = "OnDrop")]
    struct Ask;
    impl Actor for Slow {
        type Context = Context<Self>;
    }
    impl Handler<Ask> for Slow {
        type Result = ResponseFuture<OnDrop>;

        fn handle(&mut self, _: Ask, _: &mut Context<Self>) -> Self::Result {
            Box::pin(async {
                tokio::task::yield_now().await;
                OnDrop::new(panic_on_purpose)
            })
        }
    }
    count_panics();
    witnessed(of_ten, |world, witness| async move {
        let slow = Slow.start();
        world.timers.schedule_after(Target::from(&slow).window(1), ms(10), Ask);
        world.run_to(SECOND).await;
        witness.the(PANICKED, &["panics=1", "panic=\"on purpose\""]);
    });
}

/// Dead letters of another reason are reported, too; of one reason the first, and the number that followed with the
/// next report.
#[test]
fn of_messages_that_became_dead_letters() {
    witnessed(TimerActor::builder, |world, witness| async move {
        let (addr, _log) = world.probe::<u32>();
        let first = world.after(&addr, 10, 1);
        (2..=4).for_each(|name| _ = world.after(&addr, 20, name));
        world.after(&addr, 10 * SECOND + 20, 5);
        drop(addr);
        world.run_to(10 * SECOND).await;
        let id = format!("id={first}");
        witness
            .the(DEAD, &[&id, "reason=\"recipient_stopped\"", "message_type=\"support::Note<u32>\"", "suppressed=0"]);
        world.run_to(11 * SECOND).await;
        witness.the(DEAD, &["suppressed=3"]);

        let (addr, _log) = world.probe();
        let _answer = block(&addr).await;
        (0..40).for_each(|name| {
            _ = world.after(Target::from(&addr).mailbox_policy(MailboxPolicy::Discard { window: 8 }), 100, name)
        });
        world.run_to(12 * SECOND).await;
        witness.the(DEAD, &["reason=\"window_full\"", "suppressed=0"]);
    });
}

#[cfg(feature = "durable")]
#[test]
fn of_durable_messages_that_became_dead_letters() {
    use actix_timers::CancelOutcome;
    use support::durable::{Act, Diary, ROUTE, life, run_to};

    let _alone = super::alone();
    let (witness, _guard) = witness_up_to(LevelFilter::DEBUG);
    life(0, async |clock| {
        let diary = Diary::default();
        let disk = actix_timers_durable::store::MemoryDisk::new();
        let timers = diary.builder(&disk, &clock).name("post").start().unwrap();
        let mut ids = Vec::new();
        for (note, due) in [(1, 100), (2, 200), (3, 300), (4, 10_100)] {
            diary.script(note, [Act::FailForGood]);
            let scheduled = timers.schedule_at(ROUTE, support::durable::at(due), support::durable::Note(note)).await;
            ids.push(scheduled.unwrap().id());
        }
        run_to(&clock, 10_000).await;
        witness.the(
            DURABLE_DEAD,
            &[
                &format!("id={}", ids[0]),
                "timer=\"post\"",
                "route=\"diary\"",
                "attempt=1",
                "reason=\"never\"",
                "suppressed=0",
            ],
        );
        run_to(&clock, 21_000).await;
        witness.the(DURABLE_DEAD, &[&format!("id={}", ids[3]), "suppressed=2"]);
        // The time-out of the last attempt of a cancelled message makes no dead letter.
        diary.script(5, [Act::Fail, Act::Fail, Act::Hang]);
        let id = timers.schedule_after(ROUTE, ms(100), support::durable::Note(5)).await.unwrap().id();
        run_to(&clock, 21_500).await;
        assert_eq!(diary.len(), 4 + 3, "the last attempt is under way");
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
        run_to(&clock, 30_000).await;
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead), (0, 4));
        assert_eq!(witness.take(DURABLE_DEAD), Vec::<String>::new());
        assert_eq!(witness.take("durable dead letter").len(), 4, "each of them is an event");
        timers.stop().await.unwrap();
    });
}

/// As of a transaction on PostgreSQL: the row is gone when the node writes its own end.
#[test]
fn of_a_durable_dead_letter_in_a_transaction_of_its_handler() {
    use support::durable::{Note, ROUTE, at, handled_by, life, run_to};

    let _alone = super::alone();
    let (witness, _guard) = witness_up_to(LevelFilter::WARN);
    life(0, async |clock| {
        let cell = std::rc::Rc::new(std::cell::OnceCell::<actix_timers_durable::DurableTimers>::new());
        let (timers, now) = (cell.clone(), clock.clone());
        let to = handled_by(async move |note: actix_timers_durable::Durable<Note>| {
            let never = actix_timers_durable::HandlerError::permanent("never");
            let _ = note.end_in_transaction(Err(never), now.wall());
            // A second one is refused, since the first was committed.
            let _ = note.end_in_transaction(Ok(()), now.wall());
            note.end_was_refused();
            timers.get().unwrap().cancel(note.id).await?;
            Ok(())
        });
        let builder = actix_timers_durable::DurableTimers::builder(actix_timers_durable::MemoryStore::new());
        let started = builder.clock(clock.clone()).route::<Note>(ROUTE, to).start().unwrap();
        let timers = cell.get_or_init(|| started);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 100).await;
        witness.the(DURABLE_DEAD, &["attempt=1", "reason=\"never\""]);
        timers.stop().await.unwrap();
    });
}

#[test]
fn of_panics_while_the_timer_actor_ends() {
    count_panics();
    let _alone = super::alone();
    let (witness, _guard) = witness_up_to(LevelFilter::WARN);
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u32>();
        (0..2).for_each(|_| _ = world.timers.schedule_after(&addr, ms(HOUR), OnDrop::new(panic_on_purpose)));
        world.settle().await;
    });
    witness.the(DEAD, &["reason=\"service_stopped\"", "suppressed=0"]);
    witness.the(PANICKED, &["panics=2"]);
}

/// A subscriber that panics is user code as well.
#[test]
fn of_panics_of_the_subscriber_itself() {
    count_panics();
    struct Panics(Arc<AtomicUsize>);
    impl<S: Subscriber> Layer<S> for Panics {
        fn on_event(&self, _: &Event<'_>, _: Layering<'_, S>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic_on_purpose();
        }
    }
    let _alone = super::alone();
    let called = Arc::new(AtomicUsize::new(0));
    let layer = Panics(Arc::clone(&called)).with_filter(LevelFilter::WARN);
    let _guard = tracing::subscriber::set_default(Registry::default().with(layer));
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        world.after(&addr, 10, 1);
        world.jump_to(HOUR).await;
        assert_eq!(log.names(), [1]);
        // The driver is late, and a subscriber of that warning panicked.
        assert_eq!(called.load(Ordering::SeqCst), 2);
        world.run_to(2 * HOUR).await;
        world.after(&addr, 10, 2);
        world.run_to(3 * HOUR).await;
        assert_eq!(log.names(), [2]);
        assert_eq!(called.load(Ordering::SeqCst), 3, "the second panic, reported at the next turn");
    });
}

#[test]
fn of_each_timer_actor_for_itself() {
    witnessed(of_ten, |world, witness| async move {
        let other = TimerActor::builder().name("other").capacity(1).start().unwrap();
        let (addr, _log) = world.probe();
        (0..8).for_each(|name| _ = world.after(&addr, HOUR, name));
        other.schedule_after(&addr, ms(HOUR), Note(1));
        world.settle().await;
        let told = witness.take(NEARLY_FULL);
        assert_eq!(told.len(), 2);
        for name in ["timer=\"of ten\"", "timer=\"other\""] {
            assert!(told.iter().any(|warning| warning.contains(name)), "{told:?}");
        }
        drop(other.drain());
    });
}

/// The warning concerns the process, and tests beside this one have timer actors, too.
#[test]
fn of_many_timer_actors_once_in_a_process() {
    support::in_own_process!(of_many_timer_actors_once_in_a_process, many_timer_actors);
}

fn many_timer_actors() {
    let (witness, _guard) = witness_up_to(LevelFilter::WARN);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let start = |name: String| TimerActor::builder().name(name).build().unwrap();

    let most = cores.max(64);
    // A timer actor that is gone does not count.
    let gone = support::in_real_time(async { TimerActor::builder().start().unwrap() });
    *witness.timers.lock().unwrap() = Some(gone);
    let mut actors: Vec<_> = (0..most).map(|number| start(format!("{number}"))).collect();
    witness.nothing_else();
    actors.push(start("one too many".to_owned()));
    witness.the(MANY, &["timer=\"one too many\"", &format!("running={}", most + 1), &format!("cores={cores}")]);

    actors.extend((0..10).map(|number| start(format!("more {number}"))));
    actors.clear();
    actors.extend((0..=most).map(|number| start(format!("again {number}"))));
    witness.nothing_else();
}

#[test]
fn every_warning_is_in_the_operations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/operations.md");
    let operations = std::fs::read_to_string(path).unwrap();
    for text in [NEARLY_FULL, FULL, LATE, MISSING, STEPPED, STUCK, PANICKED, MANY, DEAD, DURABLE_DEAD, LOST] {
        assert!(operations.contains(&format!("| `{text}` |")), "{text}");
    }
}
