//! Random calls, compared with a list of requests that is searched from end to end.

use std::time::Duration;

use actix_timers_purgatory::{Keys, Wait};
use support::Random;

use crate::{Answer, Level, World, answer};

const KEYS: u64 = 5;
const CAPACITY: usize = 12;

/// A request of the model: it is met as soon as the level of `gate` has been reached.
struct Expected {
    keys: Vec<u32>,
    deadline: Duration,
    gate: usize,
    level: u32,
    answer: Option<Answer>,
}

struct Model {
    levels: [u32; 3],
    requests: Vec<Expected>,
}

impl Model {
    fn waiting(&self) -> impl Iterator<Item = &Expected> {
        self.requests.iter().filter(|request| request.answer.is_none())
    }

    /// Ends the waiting requests of a selection, and returns their number.
    fn end(&mut self, selected: impl Fn(&Expected) -> bool, answer: impl Fn(&Expected) -> Answer) -> usize {
        let mut ended = 0;
        for request in self.requests.iter_mut().filter(|request| request.answer.is_none() && selected(request)) {
            request.answer = Some(answer(request));
            ended += 1;
        }
        ended
    }
}

async fn agrees_with_the_model(seed: u64) {
    let mut random = Random::new(seed);
    let world = World::with(|timers| timers, |purgatory| purgatory.capacity(CAPACITY));
    let levels = [(); 3].map(|()| Level::default());
    let mut model = Model { levels: [0; 3], requests: Vec::new() };
    let mut waits: Vec<Option<Wait<u32, _>>> = Vec::new();
    let same: Keys<u32> = (0..3).collect();
    for step in 0..150 {
        let key = random.below(KEYS) as u32;
        match random.below(20) {
            0..8 => {
                let keys: Vec<u32> = match random.below(5) {
                    0 => (0..3).collect(),
                    count => (1..count).map(|_| random.below(KEYS) as u32).collect(),
                };
                let timeout = Duration::from_millis(random.spread(8));
                let gate = random.below(3) as usize;
                let level = model.levels[gate] + random.below(4) as u32;
                // Requests with equal keys may share them.
                let given = if keys == [0, 1, 2] { same.clone() } else { Keys::from(keys.clone()) };
                waits.push(Some(world.purgatory.wait(given, timeout, levels[gate].reached(level))));
                let answer = if level <= model.levels[gate] {
                    Some(Answer::Completed(model.levels[gate]))
                } else if model.waiting().count() == CAPACITY {
                    Some(Answer::Full)
                } else {
                    None
                };
                let deadline = world.clock.now() + timeout;
                model.requests.push(Expected { keys, deadline, gate, level, answer });
            }
            8..11 => {
                let gate = random.below(3) as usize;
                model.levels[gate] += 1;
                levels[gate].set(model.levels[gate]);
            }
            11..15 => {
                let now = model.levels;
                let is_met = |request: &Expected| request.keys.contains(&key) && request.level <= now[request.gate];
                let completed = model.end(is_met, |request| Answer::Completed(now[request.gate]));
                assert_eq!(world.purgatory.check(&key), completed, "seed {seed}, step {step}");
            }
            15 => {
                let cancelled = model.end(|request| request.keys.contains(&key), |_| Answer::Cancelled);
                assert_eq!(world.purgatory.cancel(&key), cancelled, "seed {seed}, step {step}");
            }
            16..18 => {
                world.clock.advance(Duration::from_millis(random.spread(7))).await;
                let now = world.clock.now();
                model.end(|request| request.deadline <= now, |_| Answer::Expired);
            }
            18 if !waits.is_empty() => {
                let number = random.index_of(&waits);
                waits[number] = None;
                // Its answer is compared no more.
                model.requests[number].answer.get_or_insert(Answer::Closed);
            }
            _ if step > 140 => {
                let closed = model.end(|_| true, |_| Answer::Closed);
                assert_eq!((world.purgatory.close(), world.purgatory.close()), (closed, 0), "seed {seed}, step {step}");
                assert!(world.purgatory.is_closed());
                break;
            }
            _ if !waits.is_empty() => {
                let number = random.index_of(&waits);
                if let Some(wait) = &mut waits[number] {
                    let found = answer(wait);
                    assert_eq!(found, model.requests[number].answer, "seed {seed}, step {step}, request {number}");
                    if found.is_some() {
                        assert_eq!(answer(wait), None, "it is given once");
                        waits[number] = None;
                    }
                }
            }
            _ => {}
        }
        // Time-outs of zero are due at once.
        world.clock.settle().await;
        let now = world.clock.now();
        model.end(|request| request.deadline <= now, |_| Answer::Expired);
        let watched: usize = model.waiting().map(|request| request.keys.len()).sum();
        assert_eq!(world.purgatory.watched(), watched, "seed {seed}, step {step}");
        assert_eq!(world.purgatory.delayed(), model.waiting().count(), "seed {seed}, step {step}");
        assert_eq!(world.timers.snapshot().pending(), model.waiting().count() as u64, "seed {seed}, step {step}");
        // The conditions of others are gone. A refused one is in its answer.
        let has_condition = |(number, request): &(usize, &Expected)| match request.answer {
            Some(Answer::Full) => waits[*number].is_some(),
            ref answer => answer.is_none(),
        };
        let conditions = model.requests.iter().enumerate().filter(has_condition).count();
        assert_eq!(levels.iter().map(Level::users).sum::<usize>(), conditions, "seed {seed}, step {step}");
    }
    for (number, (wait, expected)) in waits.iter_mut().zip(&model.requests).enumerate() {
        if let Some(wait) = wait {
            assert_eq!(answer(wait), expected.answer, "seed {seed}, request {number}");
        }
    }
}

#[actix::test]
async fn random_calls_agree_with_a_model() {
    let seeds = std::env::var("ACTIX_TIMERS_SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        agrees_with_the_model(seed).await;
    }
}
