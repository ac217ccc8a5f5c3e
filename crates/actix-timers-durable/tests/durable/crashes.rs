//! Messages whose handlers end the process, among messages whose handlers do not.
//!
//! A handler that ends the process cuts the power of the disk first: later writes of this life are lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, Repeat};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DecodeError, Durable, DurableFilter, DurableMessage, DurableOptions, DurableState, DurableTimers, HandlerError,
    RetryPolicy, RouteOptions, Schedule,
};
use tokio::sync::Notify;

use support::durable::{Diary, Note, ROUTE, at, life, ms, quick, run_to};

/// The behaviour of a note's handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    /// Succeeds at once.
    Quick,
    /// Succeeds when the test allows it.
    Slow,
    /// Fails with an error.
    Failing,
    /// Never answers.
    Hanging,
    /// Ends the process.
    Killing,
    /// Ends the process when the test allows it, long after its time-out.
    KillingLate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Delivery {
    life: u32,
    note: u32,
    attempt: u32,
    repetition: u64,
    /// The number of other messages with their handlers.
    others: usize,
}

#[derive(Clone)]
struct Plant {
    disk: MemoryDisk,
    natures: Arc<Mutex<BTreeMap<u32, Nature>>>,
    log: Arc<Mutex<Vec<Delivery>>>,
    /// With their handlers in this life.
    busy: Arc<Mutex<BTreeSet<u32>>>,
    go: Arc<Notify>,
    is_killed: Arc<AtomicBool>,
    life: u32,
}

impl Plant {
    fn new() -> Self {
        Self {
            disk: MemoryDisk::new(),
            natures: Arc::default(),
            log: Arc::default(),
            busy: Arc::default(),
            go: Arc::default(),
            is_killed: Arc::default(),
            life: 0,
        }
    }

    fn is(&self, note: u32, nature: Nature) {
        self.natures.lock().unwrap().insert(note, nature);
    }

    /// The next process.
    fn start(&mut self, clock: &ManualClock, options: RouteOptions) -> DurableTimers {
        self.builder(clock, options).start().unwrap()
    }

    fn builder(&mut self, clock: &ManualClock, options: RouteOptions) -> actix_timers_durable::DurableTimersBuilder {
        self.life += 1;
        self.busy.lock().unwrap().clear();
        self.is_killed = Arc::default();
        DurableTimers::builder(self.disk.open()).clock(clock.clone()).route_with::<Note>(
            ROUTE,
            self.clone().start_worker(),
            options,
        )
    }

    fn start_worker(self) -> Addr<Worker> {
        Worker(self).start()
    }

    fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    fn kill(&self) {
        self.disk.power_off();
        self.is_killed.store(true, Ordering::Relaxed);
    }

    fn log(&self) -> Vec<Delivery> {
        self.log.lock().unwrap().clone()
    }

    fn attempts(&self, note: u32) -> Vec<u32> {
        self.log().iter().filter(|delivery| delivery.note == note).map(|delivery| delivery.attempt).collect()
    }
}

struct Worker(Plant);

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, durable: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        let plant = self.0.clone();
        if plant.is_killed() {
            return Box::pin(std::future::pending());
        }
        let note = durable.message.0;
        let others = plant.busy.lock().unwrap().len();
        plant.busy.lock().unwrap().insert(note);
        let Durable { attempt, repetition, .. } = durable;
        plant.log.lock().unwrap().push(Delivery { life: plant.life, note, attempt, repetition, others });
        let nature = plant.natures.lock().unwrap().get(&note).copied().unwrap_or(Nature::Quick);
        Box::pin(async move {
            match nature {
                Nature::Quick | Nature::Failing => {}
                Nature::Slow => plant.go.notified().await,
                Nature::Hanging => std::future::pending().await,
                Nature::Killing => {
                    plant.kill();
                    std::future::pending().await
                }
                Nature::KillingLate => {
                    plant.go.notified().await;
                    plant.kill();
                    std::future::pending().await
                }
            }
            plant.busy.lock().unwrap().remove(&note);
            if nature == Nature::Failing { Err(HandlerError::new("not now")) } else { Ok(()) }
        })
    }
}

thread_local! {
    /// The plant whose process ends when a fragile message is decoded.
    static ENDS: RefCell<Option<Plant>> = const { RefCell::new(None) };
}

/// A message that ends the process when it is decoded: its decoder overflows the stack, or runs out of memory.
#[derive(serde::Serialize, serde::Deserialize)]
struct Fragile(u32);

impl DurableMessage for Fragile {
    const NAME: &'static str = "fragile";

    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        ENDS.with_borrow(|plant| plant.iter().for_each(Plant::kill));
        Self::decode_json(version, payload)
    }
}

impl Handler<Durable<Fragile>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, _: Durable<Fragile>, _: &mut Context<Self>) -> Self::Result {
        Box::pin(std::future::pending())
    }
}

fn twice() -> RouteOptions {
    RouteOptions::new().retry(quick().max_attempts(2))
}

/// Runs lives until the process is no longer killed, at most `most`. Each starts a second after the one before.
fn live(plant: &mut Plant, start: u64, most: u32, options: RouteOptions) -> u32 {
    for kills in 0..most {
        let is_killed = life(start + u64::from(kills) * 1000, async |clock| {
            let timers = plant.start(&clock, options.clone());
            clock.settle().await;
            for _ in 0..20 {
                plant.go.notify_waiters();
                clock.advance(ms(20)).await;
            }
            if !plant.is_killed() {
                timers.stop().await.unwrap();
            }
            plant.is_killed()
        });
        if !is_killed {
            return kills;
        }
    }
    most
}

/// Returns a plant whose message 1 has killed two processes, so that it is a suspect.
fn with_suspect(options: RouteOptions) -> Plant {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    life(0, async |clock| {
        let timers = plant.start(&clock, options.clone());
        let _ = timers.schedule_at(ROUTE, at(0), Note(1)).await.unwrap();
        clock.settle().await;
    });
    assert_eq!(live(&mut plant, 1000, 1, options), 1);
    plant
}

async fn dead(timers: &DurableTimers) -> Vec<(u32, u32, String)> {
    let mut dead = vec![];
    for info in timers.list(DurableFilter::dead().limit(10_000)).await.unwrap().timers {
        let DurableState::Dead { reason, .. } = &info.state else { panic!("it is dead") };
        dead.push((info.message::<Note>().unwrap().0, info.progress.attempt, reason.to_string()));
    }
    dead.sort();
    dead
}

fn dead_letters(plant: &mut Plant, start: u64) -> Vec<(u32, u32, String)> {
    life(start, async |clock| {
        let timers = plant.start(&clock, twice());
        clock.settle().await;
        let dead = dead(&timers).await;
        timers.stop().await.unwrap();
        dead
    })
}

#[test]
fn a_message_that_kills_its_process_is_a_dead_letter() {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        let _ = timers.schedule_at(ROUTE, at(0), Note(1)).await.unwrap();
        clock.settle().await;
        assert!(plant.is_killed());
    });
    assert_eq!(live(&mut plant, 1000, 10, twice()), 2);
    assert_eq!(plant.attempts(1), [1, 2, 3], "twice as any other, and once alone");
    let dead = dead_letters(&mut plant, 20_000);
    let [(1, 3, reason)] = &*dead else { panic!("{dead:?}") };
    assert!(reason.contains("the process ended") && reason.contains("attempt 3"), "{reason}");
}

#[test]
fn a_decoder_that_kills_its_process_makes_a_dead_letter() {
    let mut plant = Plant::new();
    let mut kills = 0;
    for number in 0.. {
        let is_killed = life(number * 1000, async |clock| {
            let builder = plant.builder(&clock, twice());
            let timers =
                builder.route_with::<Fragile>("fragile", plant.clone().start_worker(), twice()).start().unwrap();
            ENDS.set(Some(plant.clone()));
            if number == 0 {
                let _ = timers.schedule_at("fragile", at(0), Fragile(1)).await.unwrap();
            }
            clock.settle().await;
            ENDS.set(None);
            if !plant.is_killed() {
                assert_eq!(timers.counts().await.unwrap().dead, 1);
                timers.stop().await.unwrap();
            }
            plant.is_killed()
        });
        if !is_killed {
            break;
        }
        kills += 1;
        assert!(kills <= 3, "it would go on for ever");
    }
    assert_eq!(kills, 3, "twice as any other, and once alone");
}

#[test]
fn other_messages_in_handlers_are_delivered_one_by_one() {
    let mut plant = Plant::new();
    let killers = [3, 7, 11];
    for note in 0..20 {
        plant.is(note, if killers.contains(&note) { Nature::Killing } else { Nature::Slow });
    }
    life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        for note in 0..20 {
            let _ = timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
        }
        run_to(&clock, 20).await;
        assert!(plant.is_killed());
    });
    // One more for all, and then one for each of the killers.
    assert_eq!(live(&mut plant, 1000, 30, twice()), 1 + 3);
    for delivery in plant.log() {
        assert!(delivery.attempt <= 2 || delivery.others == 0, "{delivery:?} is alone");
    }
    let dead = dead_letters(&mut plant, 100_000);
    assert_eq!(dead.iter().map(|(note, ..)| *note).collect::<Vec<_>>(), killers);
    assert_eq!(plant.log().iter().filter(|delivery| delivery.note == 19).count(), 3);
}

#[test]
fn others_wait_for_a_suspect_at_most_for_its_time_out() {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    let start = 10_000;
    life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        let _ = timers.schedule_at(ROUTE, at(0), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(start), Note(2)).await.unwrap();
        clock.settle().await;
    });
    assert_eq!(live(&mut plant, 1000, 1, twice()), 1);
    plant.is(1, Nature::Hanging);
    life(start, async |clock| {
        let timers = plant.start(&clock, twice());
        clock.settle().await;
        clock.advance(ms(999)).await;
        assert_eq!(plant.log().last().map(|delivery| (delivery.note, delivery.attempt)), Some((1, 3)));
        clock.advance(ms(1)).await;
        assert_eq!(plant.log().last().map(|delivery| delivery.note), Some(2));
        // It has failed like any other: its attempts were used up.
        let dead = dead(&timers).await;
        assert!(matches!(&*dead, [(1, 3, reason)] if reason.contains("had not ended")), "{dead:?}");
        timers.stop().await.unwrap();
    });
}

/// A handler past its time-out may still be running, and end the process while another message is alone.
#[test]
fn a_timed_out_handler_that_ends_the_process_blames_no_other() {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    plant.is(2, Nature::Slow);
    life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        for note in [1, 2] {
            let _ = timers.schedule_at(ROUTE, at(0), Note(note)).await.unwrap();
        }
        clock.settle().await;
    });
    assert_eq!(live(&mut plant, 1000, 1, twice()), 1);
    // Both are suspects. The first has timed out, and ends the process while the second is alone.
    plant.is(1, Nature::KillingLate);
    plant.is(2, Nature::Hanging);
    life(10_000, async |clock| {
        let _timers = plant.start(&clock, twice());
        clock.settle().await;
        clock.advance(ms(1500)).await;
        assert_eq!(plant.log().last().map(|delivery| (delivery.note, delivery.attempt)), Some((2, 3)));
        plant.go.notify_waiters();
        clock.settle().await;
        assert!(plant.is_killed());
    });
    plant.is(2, Nature::Quick);
    let dead = dead_letters(&mut plant, 20_000);
    assert!(matches!(&*dead, [(1, 3, reason)] if reason.contains("had not ended")), "{dead:?}");
    assert_eq!(plant.attempts(2), [1, 2, 3, 4]);
}

/// A message that is cancelled or replaced in flight is with its handler all the same.
#[test]
fn a_suspect_waits_for_handlers_of_cancelled_or_replaced_timers() {
    let mut plant = with_suspect(twice());
    plant.is(2, Nature::Slow);
    plant.is(3, Nature::Slow);
    life(10_000, async |clock| {
        let timers = plant.builder(&clock, twice()).open_route::<Note>("other").start().unwrap();
        // It is moved before it is delivered.
        let suspect = timers.list(DurableFilter::new()).await.unwrap().timers[0].id;
        assert!(timers.reschedule_at(suspect, at(10_100)).await.unwrap().is_rescheduled());
        let cancelled = timers.schedule_at(ROUTE, at(0), Note(2)).await.unwrap().id();
        let keyed = |note| Schedule::at(ROUTE, at(0), Note(note)).options(DurableOptions::new().replace("key"));
        let _ = timers.schedule(keyed(3)).await.unwrap();
        clock.settle().await;
        timers.cancel(cancelled).await.unwrap();
        let _ = timers.schedule(keyed(4)).await.unwrap();
        clock.advance(ms(500)).await;
        assert_eq!(plant.attempts(1), [1, 2], "not alone yet");
        plant.go.notify_waiters();
        clock.settle().await;
        assert_eq!(plant.log().last().map(|delivery| (delivery.note, delivery.attempt)), Some((1, 3)));
        assert!(plant.is_killed());
    });
    assert_eq!(dead_letters(&mut plant, 20_000).len(), 1);
}

#[test]
fn a_long_handler_beside_a_suspect_halves_the_time_of_others() {
    let patient = || RouteOptions::new().retry(quick().max_attempts(2).timeout(ms(3_600_000)));
    let mut plant = with_suspect(patient());
    plant.is(2, Nature::Slow);
    life(10_000, async |clock| {
        let timers = plant.start(&clock, patient());
        // It is moved before it is delivered.
        let suspect = timers.list(DurableFilter::new()).await.unwrap().timers[0].id;
        assert!(timers.reschedule_at(suspect, at(10_100)).await.unwrap().is_rescheduled());
        let _ = timers.schedule_at(ROUTE, at(0), Note(2)).await.unwrap();
        run_to(&clock, 10_100).await;
        let last = || plant.log().last().map(|delivery| (delivery.note, delivery.attempt, delivery.others));
        // Notes, their due times and their deliveries. The suspect waits for 30 seconds, from 10.1 s on and from 60 s on.
        for (note, due, delivered) in [(3, 12_000, 40_100), (4, 60_000, 60_000), (5, 72_000, 90_000)] {
            let _ = timers.schedule_at(ROUTE, at(due), Note(note)).await.unwrap();
            run_to(&clock, delivered - 1).await;
            assert_ne!(last(), Some((note, 1, 1)));
            run_to(&clock, delivered).await;
            assert_eq!(last(), Some((note, 1, 1)));
        }
        let _ = timers.schedule_at(ROUTE, at(140_000), Note(6)).await.unwrap();
        run_to(&clock, 150_000).await;
        plant.go.notify_waiters();
        clock.settle().await;
        assert_eq!(last(), Some((1, 3, 0)), "the suspect is alone");
        assert!(plant.is_killed());
    });
    assert_eq!(dead_letters(&mut plant, 200_000).len(), 1);
}

#[test]
fn a_stop_that_leaves_a_suspect_makes_no_dead_letters() {
    let mut plant = with_suspect(twice());
    plant.is(1, Nature::Hanging);
    for start in 0..3 {
        life(10_000 + start * 1000, async |clock| {
            let timers = plant.start(&clock, twice());
            clock.settle().await;
            // A service that is restarted, first in an orderly way and then abruptly.
            timers.stop_within(Duration::ZERO).await.unwrap();
        });
    }
    plant.is(1, Nature::Quick);
    assert_eq!(dead_letters(&mut plant, 20_000), []);
    assert_eq!(plant.attempts(1), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_series_goes_on_without_a_repetition_that_kills_its_process() {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    let id = life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        let id = timers.schedule_at_fixed_rate(ROUTE, Repeat::every(ms(100_000)), Note(1)).await.unwrap().id();
        run_to(&clock, 100_000).await;
        assert!(plant.is_killed());
        id
    });
    assert_eq!(live(&mut plant, 101_000, 10, twice()), 2);
    plant.is(1, Nature::Quick);
    life(150_000, async |clock| {
        let timers = plant.start(&clock, twice());
        run_to(&clock, 250_000).await;
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((info.state, info.progress.repetition), (DurableState::Pending, 3));
        let dead = dead(&timers).await;
        assert!(matches!(&*dead, [(1, 3, reason)] if reason.contains("the process ended")), "{dead:?}");
        assert_eq!(plant.log().last().map(|last| (last.repetition, last.attempt)), Some((2, 1)));
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_suspect_whose_handler_answers_is_treated_like_any_other() {
    for (nature, expected) in [(Nature::Quick, 0), (Nature::Failing, 1)] {
        let mut plant = with_suspect(twice());
        plant.is(1, nature);
        assert_eq!(live(&mut plant, 10_000, 10, twice()), 0);
        let dead = dead_letters(&mut plant, 20_000);
        assert_eq!(dead.len(), expected);
        assert!(dead.iter().all(|(_, attempt, reason)| *attempt == 3 && reason == "not now"), "{dead:?}");
    }
}

#[test]
fn the_policy_of_a_timer_goes_before_that_of_its_route() {
    let mut plant = Plant::new();
    plant.is(1, Nature::Killing);
    let once = RetryPolicy::never();
    life(0, async |clock| {
        let timers = plant.start(&clock, twice());
        let request = Schedule::at(ROUTE, at(0), Note(1)).options(DurableOptions::new().retry(once));
        let _ = timers.schedule(request).await.unwrap();
        clock.settle().await;
    });
    assert_eq!(live(&mut plant, 1000, 10, twice()), 1);
    assert_eq!(plant.attempts(1), [1, 2]);
    assert_eq!(dead_letters(&mut plant, 20_000).len(), 1);
}

/// SplitMix64: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Messages of all natures in several windows, and kills from outside whenever no suspect is alone: exactly the killers
/// become dead letters for it, after no more crashes than their attempts and one for each.
#[test]
fn only_messages_that_end_the_process_become_dead_letters() {
    let seeds = if cfg!(debug_assertions) { 0..60 } else { 0..1000 };
    for seed in seeds {
        let mut random = Random(seed);
        let mut plant = Plant::new();
        let attempts = 1 + random.below(3) as u32;
        let window = 1 + random.below(8) as usize;
        let options = RouteOptions::new().window(window).retry(quick().max_attempts(attempts));
        let count = 1 + random.below(30) as u32;
        for note in 0..count {
            let nature = match random.below(10) {
                0 | 1 => Nature::Killing,
                2..5 => Nature::Slow,
                5 => Nature::Failing,
                _ => Nature::Quick,
            };
            plant.is(note, nature);
        }
        let killers: Vec<u32> = {
            let natures = plant.natures.lock().unwrap();
            natures.iter().filter(|(_, nature)| **nature == Nature::Killing).map(|(note, _)| *note).collect()
        };
        let (mut start, mut kills, mut from_outside) = (0, 0, 0);
        // By life and note: a stop returns the attempt.
        let mut returned = Vec::new();
        life(start, async |clock| {
            let timers = plant.start(&clock, options.clone());
            for note in 0..count {
                let due = random.below(2) * random.below(4000);
                let _ = timers.schedule_at(ROUTE, at(due), Note(note)).await.unwrap();
                if plant.is_killed() {
                    panic!("nothing is delivered before the test lets it");
                }
            }
            // Earlier deliveries are of the first life, and may have killed.
            plant.kill();
        });
        for _ in 0..1000 {
            start += 1 + random.below(1500);
            let is_over = life(start, async |clock| {
                let timers = plant.start(&clock, options.clone());
                clock.settle().await;
                for _ in 0..random.below(40) {
                    if plant.is_killed() {
                        break;
                    }
                    if random.once_in(2) {
                        plant.go.notify_waiters();
                    }
                    let step = random.below(200);
                    clock.advance(ms(step)).await;
                    start += step;
                    let is_alone = plant.busy.lock().unwrap().len() == 1;
                    if from_outside < 3 && !is_alone && random.once_in(20) && !plant.is_killed() {
                        from_outside += 1;
                        kills -= 1;
                        plant.kill();
                    }
                }
                if plant.is_killed() {
                    kills += 1;
                    return false;
                }
                plant.go.notify_waiters();
                clock.settle().await;
                let is_killed = plant.is_killed();
                if is_killed {
                    kills += 1;
                    return false;
                }
                let pending = timers.counts().await.unwrap().pending;
                let page = timers.list(DurableFilter::new()).await.unwrap();
                assert!(page.next.is_none());
                let in_flight = page.timers.iter().filter(|info| info.state == DurableState::InFlight);
                returned.extend(in_flight.map(|info| (plant.life, info.message::<Note>().unwrap().0)));
                // Unfinished messages come again.
                timers.stop_within(Duration::ZERO).await.unwrap();
                pending == 0
            });
            if is_over {
                break;
            }
        }
        for delivery in plant.log() {
            let is_earlier = |(life, note): &&(u32, u32)| *life < delivery.life && *note == delivery.note;
            let used = delivery.attempt - returned.iter().filter(is_earlier).count() as u32;
            assert!(used <= attempts || delivery.others == 0, "seed {seed}: {delivery:?} is alone");
        }
        let dead = life(start + 100_000, async |clock| {
            let timers = plant.start(&clock, options.clone());
            clock.settle().await;
            assert_eq!(timers.counts().await.unwrap().pending, 0, "seed {seed}");
            dead(&timers).await
        });
        let killed: Vec<_> =
            dead.iter().filter(|(.., reason)| reason.contains("the process ended")).map(|(note, ..)| *note).collect();
        assert_eq!(killed, killers, "seed {seed}");
        let failing = plant.natures.lock().unwrap().values().filter(|nature| **nature == Nature::Failing).count();
        assert_eq!(dead.len(), killers.len() + failing, "seed {seed}");
        let most = killers.len() as i64 * i64::from(attempts + 1);
        assert!(kills <= most, "seed {seed}: {kills} kills by {} with {attempts} attempts each", killers.len());
        for note in 0..count {
            assert!(plant.log().iter().any(|delivery| delivery.note == note), "seed {seed}: {note} was delivered");
        }
    }
}

/// The recipe of the guide: the power goes off, the dead life is stopped, and another one starts on the same clock.
#[test]
fn a_life_without_power_that_is_stopped_delivers_nothing() {
    support::in_real_time(async {
        let (disk, clock, diary) = (MemoryDisk::new(), ManualClock::starting_at(at(0)), Diary::default());
        let timers = diary.timers(&disk, &clock);
        let _ = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap();
        clock.settle().await;
        disk.power_off();
        timers.stop().await.ok();
        let timers = diary.timers(&disk, &clock);
        run_to(&clock, 5000).await;
        assert_eq!(diary.attempts(), [(1000, 1, 1)]);
        timers.stop().await.unwrap();
    });
}
