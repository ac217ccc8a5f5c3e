//! Many requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_timers_purgatory::{Keys, Wait};
use support::Random;

use crate::{Answer, World, answer};

/// `ACTIX_TIMERS_REQUESTS` sets their number.
#[actix::test]
async fn no_watcher_is_left_of_many_requests() {
    let requests = std::env::var("ACTIX_TIMERS_REQUESTS").map_or(50_000, |number| number.parse().expect("a number"));
    /// Requests that wait at a time.
    const WAITING: usize = 1000;
    let world = World::new();
    let mut random = Random::new(1);
    let same: Keys<u32> = (0..10).collect();
    // The time that the conditions see, in milliseconds.
    let clock = Arc::new(AtomicU64::new(0));
    let (mut completed, mut expired, mut left) = (0_u64, 0_u64, 0_u64);
    let mut end = |wait: &mut Wait<u32, _>| match answer(wait) {
        Some(Answer::Completed(_)) => completed += 1,
        Some(Answer::Expired) => expired += 1,
        None => left += 1,
        Some(other) => panic!("{other:?}"),
    };
    let mut waits = std::collections::VecDeque::new();
    for number in 0..requests {
        if waits.len() == WAITING {
            waits.drain(..WAITING / 2).for_each(|mut wait| end(&mut wait));
        }
        let met_at = clock.load(Ordering::Relaxed) + random.below(150);
        let condition = {
            let clock = Arc::clone(&clock);
            move || (clock.load(Ordering::Relaxed) >= met_at).then_some(0)
        };
        let keys = match number % 4 {
            0 => same.clone(),
            _ => Keys::from([random.below(100) as u32, random.below(100) as u32, 1000 + number as u32]),
        };
        waits.push_back(world.purgatory.wait(keys, Duration::from_millis(100), condition));
        if number % 10 == 0 {
            world.purgatory.check(&(random.below(100) as u32));
        }
        if number % 100 == 0 {
            world.clock.advance(Duration::from_millis(10)).await;
            clock.fetch_add(10, Ordering::Relaxed);
        }
    }
    world.clock.advance(Duration::from_millis(100)).await;
    waits.iter_mut().for_each(&mut end);
    world.assert_empty();
    assert_eq!(completed + expired + left, requests);
    assert!(completed > 0 && expired > 0 && left > 0, "{completed}, {expired}, {left}");
}
