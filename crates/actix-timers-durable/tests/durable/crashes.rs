//! Messages whose handlers end the process, among messages whose handlers do not.
//!
//! A handler that ends the process cuts the power of the disk first: later writes of this life are lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers::{ManualClock, Repeat};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DecodeError, Durable, DurableFilter, DurableMessage, DurableOptions, DurableState, DurableTimers,
    DurableTimersBuilder, HandlerError, RouteOptions, Schedule,
};
use schemes::random::Random;
use tokio::sync::Notify;

use support::durable::{Diary, Note, ROUTE, at, handled_by, life, ms, notes, quick, run_to};

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

#[derive(Clone, Default)]
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
    fn is(&self, note: u32, nature: Nature) {
        self.natures.lock().unwrap().insert(note, nature);
    }

    /// The next process.
    fn start(&mut self, clock: &ManualClock, options: RouteOptions) -> DurableTimers {
        self.builder(clock, options).start().unwrap()
    }

    /// The next process, on the real clock.
    fn start_in_real_time(&mut self, options: RouteOptions) -> DurableTimers {
        self.builder_on(options).start().unwrap()
    }

    fn builder(&mut self, clock: &ManualClock, options: RouteOptions) -> DurableTimersBuilder {
        self.builder_on(options).clock(clock.clone())
    }

    fn builder_on(&mut self, options: RouteOptions) -> DurableTimersBuilder {
        self.life += 1;
        self.busy.lock().unwrap().clear();
        self.is_killed = Arc::default();
        let plant = self.clone();
        let worker = handled_by(async move |note| plant.handle(note).await);
        DurableTimers::builder(self.disk.open()).route_with::<Note>(ROUTE, worker, options)
    }

    async fn handle(&self, note: Durable<Note>) -> Result<(), HandlerError> {
        if self.is_killed() {
            std::future::pending().await
        }
        let Durable { attempt, repetition, message: Note(number), .. } = note;
        let others = self.busy.lock().unwrap().len();
        self.busy.lock().unwrap().insert(number);
        self.log.lock().unwrap().push(Delivery { life: self.life, note: number, attempt, repetition, others });
        // Others are with their handlers by now.
        tokio::task::yield_now().await;
        let nature = self.natures.lock().unwrap().get(&number).copied().unwrap_or(Nature::Quick);
        if matches!(nature, Nature::Slow | Nature::KillingLate) {
            self.go.notified().await;
        }
        if matches!(nature, Nature::Killing | Nature::KillingLate) {
            self.kill();
        }
        if matches!(nature, Nature::Killing | Nature::KillingLate | Nature::Hanging) {
            std::future::pending().await
        }
        self.busy.lock().unwrap().remove(&number);
        if nature == Nature::Failing { Err(HandlerError::new("not now")) } else { Ok(()) }
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

    /// Returns note and attempt of the last delivery, and the number of others with their handlers.
    fn last(&self) -> (u32, u32, usize) {
        self.log().last().map(|delivery| (delivery.note, delivery.attempt, delivery.others)).unwrap()
    }

    fn attempts(&self, note: u32) -> Vec<u32> {
        self.log().iter().filter(|delivery| delivery.note == note).map(|delivery| delivery.attempt).collect()
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

/// Returns a plant whose message 1 has killed two processes, so that it is a suspect, beside slow messages 2 due at these
/// times.
fn with_suspect(options: RouteOptions, others: &[u64]) -> Plant {
    let mut plant = Plant::default();
    plant.is(1, Nature::Killing);
    plant.is(2, Nature::Slow);
    life(0, async |clock| {
        let timers = plant.start(&clock, options.clone());
        let others = others.iter().map(|due| (2, *due));
        notes(&timers, ROUTE, [(1, 0)].into_iter().chain(others)).await;
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
fn a_decoder_that_kills_its_process_makes_a_dead_letter() {
    let mut plant = Plant::default();
    let mut kills = 0;
    for number in 0.. {
        let is_killed = life(number * 1000, async |clock| {
            let builder = plant.builder(&clock, twice());
            let worker = handled_by::<Fragile>(async |_| std::future::pending().await);
            let timers = builder.route_with("fragile", worker, twice()).start().unwrap();
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
fn others_wait_for_a_suspect_at_most_for_its_time_out() {
    let start = 10_000;
    let mut plant = with_suspect(twice(), &[start]);
    plant.is(1, Nature::Hanging);
    plant.is(2, Nature::Quick);
    life(start, async |clock| {
        let timers = plant.start(&clock, twice());
        clock.settle().await;
        clock.advance(ms(999)).await;
        assert_eq!(plant.last(), (1, 3, 0));
        clock.advance(ms(1)).await;
        assert_eq!(plant.last().0, 2);
        // It has failed like any other: its attempts were used up.
        let dead = dead(&timers).await;
        assert!(matches!(&*dead, [(1, 3, reason)] if reason.contains("had not ended")), "{dead:?}");
        timers.stop().await.unwrap();
    });
}

/// A handler past its time-out may still be running, and end the process while another message is alone.
#[test]
fn a_timed_out_handler_that_ends_the_process_blames_no_other() {
    let mut plant = with_suspect(twice(), &[0]);
    // Both are suspects. The first has timed out, and ends the process while the second is alone.
    plant.is(1, Nature::KillingLate);
    plant.is(2, Nature::Hanging);
    life(10_000, async |clock| {
        let _timers = plant.start(&clock, twice());
        clock.settle().await;
        clock.advance(ms(1500)).await;
        assert_eq!(plant.last(), (2, 3, 1));
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
    let mut plant = with_suspect(twice(), &[]);
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
        assert_eq!(plant.last(), (1, 3, 0));
        assert!(plant.is_killed());
    });
    assert_eq!(dead_letters(&mut plant, 20_000).len(), 1);
}

#[test]
fn a_long_handler_beside_a_suspect_halves_the_time_of_others() {
    let patient = || RouteOptions::new().retry(quick().max_attempts(2).timeout(ms(3_600_000)));
    let mut plant = with_suspect(patient(), &[]);
    life(10_000, async |clock| {
        let timers = plant.start(&clock, patient());
        // It is moved before it is delivered.
        let suspect = timers.list(DurableFilter::new()).await.unwrap().timers[0].id;
        assert!(timers.reschedule_at(suspect, at(10_100)).await.unwrap().is_rescheduled());
        let _ = timers.schedule_at(ROUTE, at(0), Note(2)).await.unwrap();
        run_to(&clock, 10_100).await;
        // Notes, their due times and their deliveries. The suspect waits for 30 seconds, from 10.1 s on and from 60 s on.
        for (note, due, delivered) in [(3, 12_000, 40_100), (4, 60_000, 60_000), (5, 72_000, 90_000)] {
            let _ = timers.schedule_at(ROUTE, at(due), Note(note)).await.unwrap();
            run_to(&clock, delivered - 1).await;
            assert_ne!(plant.last(), (note, 1, 1));
            run_to(&clock, delivered).await;
            assert_eq!(plant.last(), (note, 1, 1));
        }
        let _ = timers.schedule_at(ROUTE, at(140_000), Note(6)).await.unwrap();
        run_to(&clock, 150_000).await;
        plant.go.notify_waiters();
        clock.settle().await;
        assert_eq!(plant.last(), (1, 3, 0), "the suspect is alone");
        assert!(plant.is_killed());
    });
    assert_eq!(dead_letters(&mut plant, 200_000).len(), 1);
}

/// Nor does a stop that does not wait: see the random test below.
#[test]
fn the_end_of_its_system_makes_a_suspect_no_dead_letter() {
    let mut plant = with_suspect(twice(), &[]);
    plant.is(1, Nature::Hanging);
    for life in 0..3 {
        support::in_real_time(async {
            let timers = plant.start_in_real_time(twice());
            while plant.attempts(1).len() < 3 + life {
                tokio::task::yield_now().await;
            }
            assert_eq!(timers.counts().await.unwrap().dead, 0);
        });
    }
}

#[test]
fn a_series_goes_on_without_a_repetition_that_kills_its_process() {
    let mut plant = Plant::default();
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

/// Messages of all natures in several windows, and kills from outside whenever no suspect is alone: exactly the killers
/// become dead letters for it, after no more crashes than their attempts and one for each.
#[test]
fn only_messages_that_end_the_process_become_dead_letters() {
    let seeds = if cfg!(debug_assertions) { 0..60 } else { 0..1000 };
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut plant = Plant::default();
        let attempts = 1 + random.below(3) as u32;
        // Some timers have their own, which come first.
        let own: Vec<_> = (0..30).map(|_| random.one_in(4).then(|| 1 + random.below(3) as u32)).collect();
        let attempts_of = |note: u32| own[note as usize].unwrap_or(attempts);
        let window = 1 + random.index(8);
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
                let retry = own[note as usize].map(|attempts| quick().max_attempts(attempts));
                let options = retry.map_or(DurableOptions::new(), |retry| DurableOptions::new().retry(retry));
                timers.schedule(Schedule::at(ROUTE, at(due), Note(note)).options(options)).await.unwrap();
                assert!(!plant.is_killed(), "nothing is delivered before the test lets it");
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
                    if random.one_in(2) {
                        plant.go.notify_waiters();
                    }
                    let step = random.below(200);
                    clock.advance(ms(step)).await;
                    start += step;
                    let is_alone = plant.busy.lock().unwrap().len() == 1;
                    if from_outside < 3 && !is_alone && random.one_in(20) && !plant.is_killed() {
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
                if plant.is_killed() {
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
            assert!(used <= attempts_of(delivery.note) || delivery.others == 0, "seed {seed}: {delivery:?} is alone");
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
        let failed = dead.iter().filter(|(.., reason)| reason == "not now").count();
        assert_eq!((dead.len(), failed), (killers.len() + failing, failing), "seed {seed}");
        let most: i64 = killers.iter().map(|note| i64::from(attempts_of(*note) + 1)).sum();
        assert!(kills <= most, "seed {seed}: {kills} kills by {killers:?}, at most {most} expected");
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

#[test]
fn a_message_that_kills_is_found_in_a_route_without_an_end_of_attempts() {
    let endless = || RouteOptions::new().retry(quick().max_attempts(u32::MAX));
    let mut plant = Plant::default();
    plant.is(1, Nature::Killing);
    life(0, async |clock| {
        let timers = plant.start(&clock, endless());
        notes(&timers, ROUTE, [(1, 0)]).await;
        clock.settle().await;
    });
    // Ten that may be another's fault, and one alone.
    assert_eq!(live(&mut plant, 1000, 20, endless()), 10);
}
