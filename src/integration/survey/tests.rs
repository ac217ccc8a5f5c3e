//! Tests of the survey: the timers that a look at the wheel leaves out, and the number of its steps.

use super::*;
use crate::TimerActorBuilder;
use crate::tests::fixture::{Ring, ms, stopped_bell, unstarted};

/// Starts a timer actor with 16 buckets a level and some timers: pairs of their delay in milliseconds and their
/// number.
fn filled(timers: &[(u64, usize)]) -> (TimerActor, Survey) {
    let (actor, handle) = unstarted(TimerActorBuilder::default().wheel_size(16));
    let target = stopped_bell();
    for (due, count) in timers {
        for _ in 0..*count {
            handle.schedule_after(&target, ms(*due), Ring);
        }
    }
    let survey = Survey { service: Arc::clone(actor.service()), _addr: None };
    (actor, survey)
}

/// Returns the number of timers found, and whether others may belong to the result.
fn walked((_, survey): &(TimerActor, Survey), mut walk: TimerWalk) -> (usize, bool) {
    while survey.continue_walk(&mut walk) {}
    let sampled = walk.sampled;
    (walk.finish().len(), sampled)
}

#[test]
fn a_look_says_whether_it_left_out_wanted_timers() {
    let due_together = filled(&[(5, 5)]);
    assert_eq!(walked(&due_together, TimerWalk::to_the_next(3)), (3, false), "any of them may be next");
    assert_eq!(walked(&due_together, TimerWalk::to_the_next(5)), (5, false));
    assert_eq!(walked(&due_together, TimerWalk::to_bucket(0, 5, 3)), (3, true), "the bucket is wanted");
    assert_eq!(walked(&due_together, TimerWalk::to_bucket(0, 5, 5)), (5, false));
    let far = filled(&[(100, 5)]);
    assert_eq!(walked(&far, TimerWalk::to_the_next(3)), (3, true), "others of the bucket may be due before them");
    assert_eq!(walked(&far, TimerWalk::to_the_next(5)), (5, false));
    let near_and_far = filled(&[(5, 2), (6, 2), (100, 5)]);
    assert_eq!(walked(&near_and_far, TimerWalk::to_the_next(3)), (3, false), "one of those due together is enough");
    assert_eq!(walked(&near_and_far, TimerWalk::to_the_next(4)), (4, false), "the others are due later");
    let two_samples = filled(&[(100, TIMERS_OF_A_BUCKET + 1), (120, TIMERS_OF_A_BUCKET + 1)]);
    assert_eq!(walked(&two_samples, TimerWalk::to_the_next(1000)), (2 * TIMERS_OF_A_BUCKET, true));
    let many = filled(&[(5, TIMERS_OF_A_BUCKET + 44)]);
    assert_eq!(walked(&many, TimerWalk::to_the_next(1000)), (TIMERS_OF_A_BUCKET, true));
}

#[test]
fn a_look_at_many_buckets_takes_several_steps() {
    let buckets: Vec<_> = (1..=100).map(|due| (due * 16, 10)).collect();
    let (_actor, survey) = filled(&buckets);
    let mut walk = TimerWalk::to_the_next(1000);
    let mut found = Vec::new();
    while survey.continue_walk(&mut walk) {
        found.push(walk.found.len());
    }
    let steps: Vec<_> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(found[0] <= TIMERS_OF_A_BUCKET && found.len() >= 3, "{found:?}");
    assert!(steps.iter().all(|step| *step <= TIMERS_OF_A_BUCKET), "{found:?}");
    assert_eq!(walk.finish().len(), 1000);
}

#[test]
fn timers_of_a_bucket_are_found_in_the_order_of_their_deadlines() {
    let (_actor, survey) = filled(&[(105, 1), (100, 1), (110, 1)]);
    let mut walk = TimerWalk::to_the_next(3);
    while survey.continue_walk(&mut walk) {}
    let remaining: Vec<_> = walk.finish().iter().map(|timer| timer.remaining).collect();
    assert!(remaining.len() == 3 && remaining.is_sorted(), "{remaining:?}");
}
