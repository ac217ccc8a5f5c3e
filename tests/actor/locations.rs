//! The location of a timer, the reason why it has not fired yet, and the filters that find timers.

use std::time::Duration;

use actix_timers::{
    ActorId, ActorTag, Target, TimerContext, TimerFilter, TimerId, TimerInfo, TimerLocation, TimerOptions, TimerState,
};
use support::{Note, Probe, World, block, ms, run, with_probe};

fn at(world: &World, id: TimerId) -> TimerInfo {
    world.timers.get(id).unwrap()
}

#[test]
fn one_that_is_not_due_tells_its_bucket_and_the_time_left() {
    with_probe::<u32>(async |world, addr, _log| {
        world.run_to(10).await;
        let near = world.after(&addr, 40, 1);
        let far = world.after(&addr, 700, 2);
        let near = at(&world, near);
        let expected = TimerLocation::Wheel { level: 0, bucket: 50, width: ms(1), expires_in: ms(40) };
        assert_eq!((&near.location, near.level), (&expected, Some(0)));
        assert_eq!(
            near.explain(),
            "Not due yet: 40ms left. It waits on level 0, and comes out when its bucket expires."
        );
        let info = at(&world, far);
        let expected = TimerLocation::Wheel { level: 1, bucket: 512, width: ms(256), expires_in: ms(502) };
        assert_eq!((&info.location, info.repeats, info.wall_time), (&expected, false, None));
        assert_eq!(
            info.explain(),
            "Not due yet: 700ms left. It waits on level 1, and goes down a level when its bucket expires, in 502ms."
        );
        world.run_to(600).await;
        let expected = TimerLocation::Wheel { level: 0, bucket: 710, width: ms(1), expires_in: ms(110) };
        assert_eq!(at(&world, far).location, expected, "it has gone down");
        let noon = world.timers.schedule_at(&addr, world.wall(3_600_000), Note(3));
        let info = at(&world, noon);
        assert_eq!(info.wall_time, Some(world.wall(3_600_000)));
        assert!(info.explain().ends_with(" It follows the wall clock."), "{}", info.explain());
        let repeats = world.timers.schedule_at_fixed_rate(&addr, ms(5000), Note(4));
        assert!(at(&world, repeats).repeats);
        if world.is_manual() {
            // The clock is set past the deadline, and the driver has not run.
            world.clock().hands.jump(ms(130));
            assert_eq!(at(&world, far).explain(), "Due since 20ms, and the timer actor has not reached it yet.");
        }
    });
}

#[test]
fn own_messages_of_a_busy_actor_wait_in_its_inbox() {
    with_probe::<u32>(async |world, addr, log| {
        let own = run(&addr, |_, ctx| -> Vec<TimerId> {
            (0..40).map(|name| ctx.schedule_after(ms(10), Note(name))).collect()
        });
        let own = own.await;
        let go = block(&addr).await;
        world.run_to(15).await;
        let inbox = |ahead| TimerLocation::Inbox { length: 40, ahead, by_mailbox: false };
        let positions = [own[0], own[39]].map(|id| at(&world, id).location);
        assert_eq!(positions, [inbox(Some(0)), inbox(Some(39))]);
        let why = at(&world, own[39]).explain();
        let expected = "Due, in the inbox of its actor, behind 39 of 40. The actor, or the thread it runs on, is busy.";
        assert_eq!(why, expected);
        assert!(at(&world, own[0]).explain().contains("as the next of 40"));
        let listed = world.timers.list(&TimerFilter::new().state(TimerState::Due));
        assert_eq!(listed[39].location, inbox(None), "in a list they are not counted for long");
        assert!(listed[39].explain().contains("behind many of 40"));
        go.send(()).unwrap();
        world.run_to(20).await;
        assert_eq!(log.len(), 40);
    });
}

#[test]
fn a_timer_waiting_for_its_recipient_shows_its_place() {
    with_probe::<u32>(async |world, addr, _log| {
        let target = Target::from(&addr).window(2);
        let go = block(&addr).await;
        let ids: Vec<TimerId> = (0..5).map(|name| world.after(target.clone(), 10, name)).collect();
        world.run_to(15).await;
        assert_eq!((world.timers.get(ids[0]), world.timers.get(ids[1])), (None, None), "delivered into the mailbox");
        let line = |ahead| TimerLocation::Queue { length: 3, ahead: Some(ahead), under_way: 2 };
        assert_eq!([2, 3, 4].map(|n| at(&world, ids[n]).location), [line(0), line(1), line(2)]);
        let why = at(&world, ids[3]).explain();
        let expected = "Due, in the queue of its recipient, behind 1 of 3. Messages under way to it, which it has not handled: \
                        2.";
        assert_eq!(why, expected);
        go.send(()).unwrap();
        world.run_to(20).await;
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn tracked_timers_wait_for_tokens_and_delays_for_the_handler() {
    with_probe::<u32>(async |world, addr, _log| {
        let go = block(&addr).await;
        let id = world.after(Target::tracked(&addr), 10, 1);
        world.run_to(15).await;
        let info = at(&world, id);
        assert_eq!((&info.location, info.state), (&TimerLocation::Mailbox { under_way: 1 }, TimerState::Due));
        assert!(info.explain().starts_with("Due, and in the mailbox of its recipient"), "{}", info.explain());
        go.send(()).unwrap();
        world.run_to(20).await;

        let timers = world.timers.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (other, _log) = world.probe_with(move |probe: &mut Probe<u32>| {
            probe.hook = Box::new(move |_, _| {
                let states = timers.list(&TimerFilter::new());
                tell.send(states.into_iter().map(|info| info.location).collect::<Vec<_>>()).unwrap();
            });
        });
        run(&other, |_, ctx| ctx.schedule_with_fixed_delay(ms(10), Note(1))).await;
        world.run_to(30).await;
        assert_eq!(told.try_recv().unwrap(), [TimerLocation::Handler]);
        world.timers.schedule_after(Target::tracked(&other), ms(1), Note(2));
        world.run_to(31).await;
        assert!(told.try_recv().unwrap().contains(&TimerLocation::Flight), "while its handler runs");
    });
}

#[test]
fn timers_are_found_by_their_visible_properties() {
    with_probe::<u32>(async |world, addr, _log| {
        let (other, _others) = world.probe::<u64>();
        let keyed = |key: actix_timers::TimerKey, delay| {
            let options = TimerOptions::new().key(key);
            world.timers.timer(&addr, options).schedule(ms(delay), Note(1_u32))
        };
        let (number, text, negative) = (keyed(7.into(), 10), keyed("7".into(), 20), keyed((-7).into(), 300));
        let own = run(&addr, |_, ctx| ctx.schedule_after(ms(400), Note(2))).await;
        let wide = world.timers.schedule_after(&other, ms(100_000), Note(3_u64));
        let found = |filter: TimerFilter| -> Vec<TimerId> {
            world.timers.list(&filter).into_iter().map(|info| info.id).collect()
        };
        let new = TimerFilter::new;
        assert_eq!(found(new().key_written_as("7")), [number, text]);
        assert_eq!(found(new().key_written_as("-7")), [negative]);
        assert_eq!(found(new().key_written_as("07")), []);
        let tag = ActorId::from(&addr).tag().unwrap();
        assert_eq!(found(new().actor_tag(tag)), [number, text, negative, own]);
        assert_eq!(found(new().actor_tag(tag)), found(new().actor(&addr)));
        assert_eq!(at(&world, own).actor, Some(tag));
        assert_ne!(at(&world, wide).actor, Some(tag));
        assert_eq!(found(new().actor_type_containing("Probe<u32>")), [number, text, negative, own]);
        assert!(at(&world, wide).actor_type.is_some_and(|name| name.contains("Probe<u64>")), "by its address");
        let recipient = world.timers.schedule_after(other.clone().recipient(), ms(100_001), Note(4_u64));
        assert_eq!(at(&world, recipient).actor_type, None, "a recipient of an actor without own timers has no type");
        assert!(world.timers.cancel(recipient).is_cancelled());
        assert_eq!(found(new().message_type_containing("Note<u64>")), [wide]);
        assert_eq!(found(new().level(0)), [number, text]);
        assert_eq!(found(new().level(2)), [wide]);
        assert_eq!(found(new().level(9).state(TimerState::Waiting)), []);
        let no_actor = "0000000000000000".parse::<ActorTag>().unwrap();
        assert_eq!(found(new().actor_tag(no_actor)), []);
        for nonsense in ["", "0", "+000000000000000", "00000000000000000", "zzzzzzzzzzzzzzzz"] {
            assert!(nonsense.parse::<ActorTag>().is_err(), "{nonsense}");
        }
        drop(addr);
        assert!(Duration::ZERO < at(&world, own).remaining);
    });
}
