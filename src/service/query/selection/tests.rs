//! Tests of lists by group.

use std::collections::HashSet;

use super::*;
use crate::tests::fixture::{Ring, stopped_bell, unstarted};
use crate::{TimerActorBuilder, TimerId, TimerOptions};

/// In groups around the size of a page, each timer is found once.
#[test]
fn a_group_of_any_size_is_found_whole() {
    for size in [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE + 1] {
        let (_actor, timers) = unstarted(TimerActorBuilder::default());
        let target = stopped_bell();
        for number in 0..2 * size {
            let options = TimerOptions::new().group(if number % 2 == 0 { "even" } else { "odd" });
            timers.timer(&target, options).schedule(Duration::from_secs(60), Ring);
        }
        assert_eq!(timers.list(&TimerFilter::new().group("even")).len(), size);
        let found = timers.service().timers_of_group(&"odd".into());
        assert_eq!((found.len(), found.iter().collect::<HashSet<_>>().len()), (size, size));
    }
}

#[test]
fn a_list_of_a_group_leaves_out_timers_that_join_it_meanwhile() {
    let (actor, timers) = unstarted(TimerActorBuilder::default());
    let target = stopped_bell();
    let join = || timers.timer(&target, TimerOptions::new().group("g")).schedule(Duration::from_secs(60), Ring);
    let first = join();
    let mut listing = actor.service().begin_list(TimerFilter::new().group("g"), 0, usize::MAX);
    join();
    while actor.service().continue_list(&mut listing) {}
    let found: Vec<TimerId> = listing.finish().iter().map(|timer| timer.id).collect();
    assert_eq!(found, [first]);
}

#[test]
fn parts_of_a_list_follow_each_other() {
    let (actor, timers) = unstarted(TimerActorBuilder::default());
    let target = stopped_bell();
    let ids: Vec<TimerId> = (0..7).map(|_| timers.schedule_after(&target, Duration::from_secs(60), Ring)).collect();
    let (mut found, mut from) = (Vec::new(), 0);
    for expected in [3, 3, 1] {
        let mut listing = actor.service().begin_list(TimerFilter::new(), from, 3);
        actor.service().continue_list(&mut listing);
        let Source::Slots(rest) = &listing.source else { panic!("another source") };
        from = rest.start;
        let part = listing.finish();
        assert_eq!(part.len(), expected);
        found.extend(part.iter().map(|timer| timer.id));
    }
    assert_eq!(found, ids);
}
