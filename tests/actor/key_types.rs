//! Keys and the types of messages: each type has keys of its own, unless they are shared; and the kinds of keys.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use actix_timers::{
    CancelKey, CancelOutcome, KeySelector, Target, TimerActor, TimerContext, TimerFilter, TimerId, TimerKey,
    TimerOptions,
};
use support::{Census, Counted, Log, Note, Probe, Way, World, in_virtual_time, ms, run, with_probe};
use uuid::Uuid;

type Owner = Addr<Probe<u32>>;

fn key(key: impl Into<TimerKey>) -> TimerOptions {
    TimerOptions::new().key(key)
}

/// Schedules a note and a message of another type with options.
async fn schedule_both(world: &World, way: Way, addr: &Owner, options: TimerOptions) -> [TimerId; 2] {
    let counted = Census::default().payload();
    match way {
        Way::Context => {
            run(addr, move |_, ctx| {
                let note = ctx.timer(options.clone()).schedule(ms(10), Note(1));
                [note, ctx.timer(options).schedule(ms(5), counted)]
            })
            .await
        }
        _ => {
            let note = world.timers.timer(addr, options.clone()).schedule(ms(10), Note(1));
            [note, world.timers.timer(addr, options).schedule(ms(5), counted)]
        }
    }
}

/// Returns the timer with key 7 that is due first.
async fn first(world: &World, way: Way, addr: &Owner) -> Option<TimerId> {
    match way {
        Way::Context => run(addr, |_, ctx| Some(ctx.actor_timers().get(7)?.id)).await,
        _ => world.by_key(addr, 7),
    }
}

/// Returns the timer with key 7 and a message of type `M`.
async fn first_of<M: 'static>(world: &World, way: Way, addr: &Owner) -> Option<TimerId> {
    match way {
        Way::Context => run(addr, |_, ctx| Some(ctx.actor_timers().get(KeySelector::of::<M>(7))?.id)).await,
        _ => Some(world.timers.list(&TimerFilter::new().actor(addr).key(7).message_type::<M>()).first()?.id),
    }
}

async fn cancel(world: &World, way: Way, addr: &Owner, key: KeySelector) -> CancelOutcome {
    match way {
        Way::Context => run(addr, move |_, ctx| ctx.cancel_key(key)).await,
        Way::Message => world.timers.addr().send(CancelKey::new(addr, key)).await.unwrap(),
        Way::Direct => world.timers.cancel_key(addr, key),
    }
}

#[test]
fn keys_of_messages_of_different_types_do_not_collide() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log): (_, Log<u32>) = world.probe();
            let [note, counted] = schedule_both(&world, way, &addr, key(7)).await;
            let of_counted = KeySelector::of::<Counted>(7);
            assert_eq!(first_of::<Note<u32>>(&world, way, &addr).await, Some(note));
            assert_eq!(first_of::<Counted>(&world, way, &addr).await, Some(counted));
            assert_eq!(first(&world, way, &addr).await, Some(counted), "the one due first");
            assert_eq!(first_of::<u8>(&world, way, &addr).await, None, "no such type");
            assert_eq!(cancel(&world, way, &addr, KeySelector::closure(7)).await, CancelOutcome::NotFound);
            assert_eq!(cancel(&world, way, &addr, of_counted.clone()).await, CancelOutcome::Cancelled);
            assert_eq!(cancel(&world, way, &addr, of_counted).await, CancelOutcome::NotFound);
            world.run_to(100).await;
            assert_eq!(log.take(), [(1, 10)]);
            schedule_both(&world, way, &addr, key(7)).await;
            assert_eq!(cancel(&world, way, &addr, 7.into()).await, CancelOutcome::Cancelled);
            assert_eq!((world.pending(), cancel(&world, way, &addr, 7.into()).await), (0, CancelOutcome::NotFound));
        });
    }
}

/// The one cannot be cancelled any more: its handler runs. Keys are visited by type, in the order of the first uses.
#[test]
fn a_cancel_of_two_timers_reports_the_one_that_was_cancelled() {
    for is_running_one_first in [true, false] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (outcome, census) = (Rc::new(Cell::new(None)), Census::default());
            let (timers, seen) = (world.timers.clone(), Rc::clone(&outcome));
            let (addr, log): (Owner, _) = world.probe_with(|probe| {
                probe.hook = Box::new(move |_, ctx| seen.set(Some(timers.cancel_key(&ctx.address(), "k"))));
            });
            let running = || _ = world.timers.timer(Target::tracked(&addr), key("k")).schedule(ms(10), Note(1));
            let pending = || _ = world.timers.timer(&addr, key("k")).schedule(ms(20), census.payload());
            if is_running_one_first {
                running();
            }
            pending();
            if !is_running_one_first {
                running();
            }
            world.run_to(10).await;
            assert_eq!(log.take(), [(1, 10)]);
            assert_eq!(outcome.get(), Some(CancelOutcome::Cancelled));
            assert_eq!((world.pending(), census.live()), (0, 0));
        });
    }
}

#[test]
fn a_shared_key_is_replaced_by_a_message_of_any_type() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, _log): (_, Log<u32>) = world.probe();
            let shared = TimerOptions::new().shared_key(7);
            let [note, counted] = schedule_both(&world, way, &addr, shared.clone()).await;
            assert_eq!((world.timers.get(note), world.pending()), (None, 1));
            assert_eq!(first(&world, way, &addr).await, Some(counted));
            assert_eq!(cancel(&world, way, &addr, KeySelector::of::<Counted>(7)).await, CancelOutcome::NotFound);
            // The keys of each type are separate from it.
            schedule_both(&world, way, &addr, shared.key(7)).await;
            assert_eq!(world.pending(), 3);
            assert_eq!(cancel(&world, way, &addr, 7.into()).await, CancelOutcome::Cancelled);
            assert_eq!(world.pending(), 0);
        });
    }
}

#[test]
fn closures_have_common_keys_apart_from_those_of_messages() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx: &mut Context<Probe<u32>>| {
            ctx.timer(key("k")).run(ms(10), |probe, _| probe.log.push(1, probe.watch.now()));
            ctx.timer(key("k")).schedule(ms(20), Note(2));
            // Of another type, although it does the same.
            ctx.timer(key("k")).run(ms(30), |probe, _| probe.log.push(3, probe.watch.now()));
            assert_eq!(ctx.actor_timers().list().len(), 2);
            ctx.timer(key("k")).run_repeatedly(ms(40), |probe, _| probe.log.push(4, probe.watch.now()));
            let timers = ctx.actor_timers();
            assert_eq!(timers.get(KeySelector::of::<Note<u32>>("k")), timers.get("k"));
            assert!(timers.get(KeySelector::closure("k")).is_some());
            ctx.timer(key("k")).schedule(ms(50), Note(5));
            assert_eq!(ctx.actor_timers().list().len(), 2);
        })
        .await;
        world.run_to(85).await;
        assert_eq!(log.take(), [(4, 40), (5, 50), (4, 80)]);
        assert_eq!(run(&addr, |_, ctx| ctx.cancel_key(KeySelector::closure("k"))).await, CancelOutcome::Cancelled);
    });
}

#[test]
fn a_tuple_is_a_key() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log): (_, Log<u32>) = world.probe();
        for order in [("order", 7), ("order", 8), ("offer", 7), ("order", 7)] {
            world.timers.timer(&addr, key(order)).schedule(ms(10), Note(1));
        }
        assert_eq!(world.pending(), 3);
        assert_eq!(world.timers.cancel_key(&addr, ("order", 8)), CancelOutcome::Cancelled);
        assert_eq!(world.timers.cancel_key(&addr, "order/7"), CancelOutcome::NotFound);
        let left = world.timers.list(&TimerFilter::new().key(("order", 7)));
        assert_eq!(left[0].key.as_ref().map(ToString::to_string), Some("order/7".to_owned()));
        let written = TimerFilter::new().key_written_as("order/7");
        assert_eq!(world.timers.list(&written).len(), 1);
    });
}

#[test]
fn references_and_owners_of_a_key_are_the_same_key() {
    let (text, number) = ("idle", 7_u32);
    let owned = text.to_owned();
    let as_key = TimerKey::from(text);
    for key in [
        TimerKey::from(&text),
        TimerKey::from(&&&owned),
        TimerKey::from(Cow::Borrowed(text)),
        TimerKey::from(&Cow::<str>::Owned(owned.clone())),
        TimerKey::from(owned.clone().into_boxed_str()),
        TimerKey::from(&Arc::<str>::from(text)),
        TimerKey::from(&&as_key),
    ] {
        assert_eq!(key, as_key);
    }
    assert_eq!(TimerKey::from(&&number), TimerKey::from(7));
    assert_eq!(TimerKey::from(&("order", &number)), TimerKey::from(("order", 7)));
    assert_eq!(TimerKey::from((&as_key, as_key.clone(), &&owned)), TimerKey::from((text, text, text)));
    assert_eq!((TimerKey::from(true), TimerKey::from(&false)), (TimerKey::from("true"), TimerKey::from("false")));
}

#[test]
fn numbers_of_128_bits_are_equal_to_those_of_fewer() {
    for (wide, narrow) in [(0_u128, 0_u64), (7, 7), (u64::MAX.into(), u64::MAX)] {
        assert_eq!(TimerKey::from(wide), TimerKey::from(narrow));
    }
    assert_eq!(TimerKey::from(i128::from(i64::MIN)), TimerKey::from(i64::MIN));
    assert_eq!(TimerKey::from(i128::MAX), TimerKey::from(i128::MAX.cast_unsigned()));
    let beyond = i128::from(u64::MAX) + 1;
    let mut sorted = [i128::MIN, i128::from(i64::MIN) - 1, i128::from(i64::MIN), -1, 7, beyond, beyond + 1, i128::MAX]
        .map(TimerKey::from);
    let texts = sorted.each_ref().map(ToString::to_string);
    sorted.reverse();
    sorted.sort();
    assert_eq!(sorted.each_ref().map(ToString::to_string), texts, "in the order of the numbers");
    assert_eq!(texts[0], i128::MIN.to_string());
    assert_eq!(format!("{:?}", TimerKey::from(u128::MAX)), format!("TimerKey({})", u128::MAX));
    assert_eq!(TimerKey::from(u128::MAX).as_str(), None);
    assert_eq!(size_of::<TimerKey>(), 24);
}

#[test]
fn a_uuid_is_a_key_of_its_own_kind() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log): (_, Log<u32>) = world.probe();
        let order = Uuid::from_u128(7);
        let written = order.to_string();
        world.timers.timer(&addr, key(order)).schedule(ms(10), Note(1));
        assert_eq!(world.timers.list(&TimerFilter::new().key_written_as(&written)).len(), 1);
        for other in [TimerKey::from(&written), TimerKey::from(7), TimerKey::from(Uuid::nil())] {
            assert_eq!(world.timers.cancel_key(&addr, other), CancelOutcome::NotFound);
        }
        world.timers.timer(&addr, key(("order", &order))).schedule(ms(10), Note(1));
        let tuple = TimerFilter::new().key_written_as(format!("order/{written}"));
        assert_eq!(world.timers.list(&tuple).len(), 1);
        assert_eq!(world.timers.cancel_key(&addr, order), CancelOutcome::Cancelled);
    });
}

#[test]
fn a_number_of_128_bits_is_found_as_it_is_written() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, _log): (_, Log<u32>) = world.probe();
        world.timers.timer(&addr, key(u128::MAX)).schedule(ms(10), Note(1));
        world.timers.timer(&addr, key(i128::MIN)).schedule(ms(10), Note(1));
        let found = |text: String| world.timers.list(&TimerFilter::new().key_written_as(text)).len();
        assert_eq!((found(u128::MAX.to_string()), found(i128::MIN.to_string())), (1, 1));
        assert_eq!(found(format!("+{}", u128::MAX)), 0, "another text");
    });
}

/// A type of the application with its own conversions.
#[derive(Clone)]
struct Customer(u32);

impl From<Customer> for TimerKey {
    fn from(Customer(number): Customer) -> Self {
        ("customer", number).into()
    }
}

impl From<&Customer> for TimerKey {
    fn from(customer: &Customer) -> Self {
        customer.clone().into()
    }
}

#[test]
fn a_conversion_of_the_application_makes_keys() {
    let customer = Customer(7);
    assert_eq!(TimerKey::from(&customer), TimerKey::from(("customer", 7)));
    assert_eq!(TimerKey::from(("retry", customer)), TimerKey::from(("retry", "customer", 7)));
}

#[cfg(feature = "derive")]
mod derived {
    use super::*;

    #[derive(Clone, TimerKey)]
    enum Step {
        Idle,
        Retry(u64),
        Renew { user: String, round: i8 },
    }

    #[derive(TimerKey)]
    enum Other {
        Idle,
    }

    #[derive(TimerKey)]
    #[allow(non_camel_case_types)]
    enum r#type {
        r#loop,
    }

    #[derive(TimerKey)]
    struct Unit;

    #[derive(TimerKey)]
    struct Nested<K>(K, Step);

    #[derive(TimerKey)]
    struct OrderId(Uuid);

    #[test]
    fn a_derived_key_has_the_names_and_the_fields() {
        let renew = Step::Renew { user: "ada".to_owned(), round: -1 };
        for (key, expected) in [
            (TimerKey::from(Step::Idle), TimerKey::from("Step::Idle")),
            (TimerKey::from(&Step::Retry(7)), TimerKey::from(("Step::Retry", 7))),
            (TimerKey::from(&renew), TimerKey::from(("Step::Renew", "ada", -1))),
            (TimerKey::from(Other::Idle), TimerKey::from("Other::Idle")),
            (TimerKey::from(r#type::r#loop), TimerKey::from("type::loop")),
            (TimerKey::from(Unit), TimerKey::from("Unit")),
            (TimerKey::from(Nested("a", Step::Retry(1))), TimerKey::from(("Nested", "a", "Step::Retry", 1))),
            (TimerKey::from(&&OrderId(Uuid::nil())), TimerKey::from(("OrderId", Uuid::nil()))),
            (TimerKey::from(&("a", &Unit)), TimerKey::from(("a", "Unit"))),
        ] {
            assert_eq!(key, expected);
        }
    }

    #[test]
    fn a_derived_key_names_a_timer() {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, _log): (_, Log<u32>) = world.probe();
            for retry in [7, 8, 7] {
                world.timers.timer(&addr, key(Step::Retry(retry))).schedule(ms(10), Note(1));
            }
            assert_eq!(world.pending(), 2);
            assert_eq!(world.timers.cancel_key(&addr, Step::Retry(8)), CancelOutcome::Cancelled);
            assert!(world.by_key(&addr, Step::Retry(7)).is_some() && world.by_key(&addr, Step::Idle).is_none());
        });
    }
}
