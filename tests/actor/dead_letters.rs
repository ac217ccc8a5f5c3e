//! Dead letters: the subscribers of undelivered messages, and the content of the reports.

use std::sync::mpsc;

use actix::prelude::*;
use actix_timers::{DeadLetter, DeadLetterReason, ScheduleAfter, SubscribeDeadLetters, Target, TimerActor, TimerId};
use support::{Listener, Note, Probe, World, eventually, in_virtual_time, listen, ms, probe, run};

/// Returns a listener that has not subscribed yet.
fn listener() -> (Addr<Listener>, mpsc::Receiver<DeadLetter>) {
    let (sender, letters) = mpsc::channel();
    (Listener(sender).start(), letters)
}

/// Returns the address of a probe that has stopped.
async fn dead(world: &World) -> Addr<Probe<u32>> {
    let (addr, _) = world.probe::<u32>();
    run(&addr, |_, ctx| ctx.stop()).await;
    world.settle().await;
    assert!(!addr.connected());
    addr
}

type Told = (TimerId, DeadLetterReason, u64, Option<Note<u32>>);

fn told(letters: &mpsc::Receiver<DeadLetter>) -> Vec<Told> {
    letters
        .try_iter()
        .map(|letter| {
            let overdue = u64::try_from(letter.overdue.as_millis()).unwrap();
            assert!(letter.message_type.contains("Note"));
            (letter.id, letter.reason, overdue, letter.take())
        })
        .collect()
}

#[test]
fn a_subscriber_is_told_id_reason_lateness_and_message() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, letters) = listener();
        world.timers.subscribe_dead_letters(addr);
        let gone = dead(&world).await;
        let plain = world.after(&gone, 10, 1);
        let request = ScheduleAfter::new(&gone, ms(20), Note(2));
        let named = request.id();
        world.timers.addr().send(request).await.unwrap().unwrap();
        world.run_to(10).await;
        assert!(told(&letters).is_empty(), "nobody holds the subscriber");

        let (addr, letters) = listener();
        world.timers.addr().send(SubscribeDeadLetters(addr.clone().recipient())).await.unwrap();
        let late = world.after(&gone, 30, 3);
        world.run_to(20).await;
        const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
        assert_eq!(told(&letters), [(named, STOPPED, 0, Some(Note(2)))]);
        world.jump_to(45).await;
        assert_eq!(told(&letters), [(late, STOPPED, 5, Some(Note(3)))]);
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 3);
        assert!(!world.timers.cancel(plain).is_cancelled());
        assert_eq!(world.pending(), 0);
    });
}

/// Nobody writes letters about letters.
#[test]
fn a_letter_keeps_its_message_for_the_right_type() {
    let builder = || TimerActor::builder().name("orders");
    in_virtual_time(builder, async |world| {
        let (_listener, letters) = listen(&world.timers);
        world.after(&dead(&world).await, 10, 1);
        world.run_to(10).await;
        let letter = letters.try_recv().unwrap();
        assert_eq!((&*letter.timer, letter.remaining), ("orders", ms(0)));
        assert!(letter.holds::<Note<u32>>() && !letter.holds::<u32>());
        assert_eq!(letter.take::<u32>(), None);
        assert_eq!(letter.clone().take(), Some(Note(1u32)));
        assert_eq!(letter.take::<Note<u32>>(), None, "once");
        assert!(!letter.holds::<Note<u32>>());
        let target = Target::<DeadLetter>::from(listener().0);
        world.timers.schedule_after(target, ms(10), letter);
        world.run_to(20).await;
        assert!(letters.try_recv().is_err());
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 2);
    });
}

/// Each of several subscribers is told once, one of them has the message, and those that have stopped are forgotten.
#[test]
fn all_subscribers_are_told_once_and_one_has_the_message() {
    in_virtual_time(TimerActor::builder, async |world| {
        let gone = dead(&world).await;
        let (first, first_letters) = listener();
        let (second, second_letters) = listener();
        for addr in [&first, &second, &first] {
            world.timers.subscribe_dead_letters(addr.clone());
        }
        let id = world.after(&gone, 10, 7);
        world.run_to(10).await;
        let all = [told(&first_letters), told(&second_letters)];
        assert!(all.iter().all(|told| told.len() == 1 && told[0].0 == id), "{all:?}");
        assert_eq!(all.iter().flatten().filter(|letter| letter.3.is_some()).count(), 1);
        drop(first);
        world.settle().await;
        assert!(first_letters.recv().is_err(), "a subscription does not keep the actor alive");
        world.after(&gone, 10, 1);
        world.run_to(20).await;
        assert_eq!(told(&second_letters).len(), 1);
        drop(second);
        world.after(&gone, 10, 2);
        world.run_to(30).await;
        assert!(told(&second_letters).is_empty());
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 3, "counted all the same");
    });
}

#[test]
fn timers_lost_with_an_arbiter_reach_a_subscriber_elsewhere() {
    support::in_real_time(async {
        let (addr, letters) = listener();
        let arbiter = Arbiter::new();
        let timers = TimerActor::builder().start_on(&arbiter.handle()).unwrap();
        timers.subscribe_dead_letters(addr.clone());
        let (recipient, _) = probe();
        let ids: Vec<TimerId> = (1..=3u32).map(|n| timers.schedule_after(&recipient, ms(3_600_000), Note(n))).collect();
        arbiter.stop();
        arbiter.join().unwrap();
        let mut all = Vec::new();
        eventually(|| {
            all.extend(letters.try_iter());
            all.len() == 3
        })
        .await;
        for (letter, (n, id)) in all.iter().zip((1..).zip(&ids)) {
            assert_eq!((letter.id, letter.reason), (*id, DeadLetterReason::ServiceStopped));
            assert!(letter.remaining > ms(3_000_000), "{letter:?}");
            assert_eq!(letter.take(), Some(Note::<u32>(n)));
        }
        assert_eq!(timers.snapshot().counters.service_stopped, 3);
    });
}
