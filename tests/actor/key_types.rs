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
use support::{Census, Counted, Note, Probe, Way, World, in_virtual_time, ms, run, with_probe};
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
        with_probe(async |world, addr, log| {
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
        with_probe(async |world, addr, _log| {
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
            ctx.timer(TimerOptions::new().shared_key("s")).schedule(ms(60), Note(6));
            ctx.timer(TimerOptions::new().shared_key("s")).run(ms(70), |probe, _| probe.log.push(7, probe.watch.now()));
            assert_eq!(ctx.actor_timers().list().len(), 3, "a shared key is that of closures, too");
        })
        .await;
        world.run_to(85).await;
        assert_eq!(log.take(), [(4, 40), (5, 50), (7, 70), (4, 80)]);
        assert_eq!(run(&addr, |_, ctx| ctx.cancel_key(KeySelector::closure("k"))).await, CancelOutcome::Cancelled);
    });
}

/// It is also found as it is written, which is no key of the same timer.
#[test]
fn a_key_of_any_kind_names_its_timer() {
    with_probe::<u32>(async |world, addr, _log| {
        let order = Uuid::from_u128(7);
        let keys: [(TimerKey, String); 7] = [
            (("order", 7).into(), "order/7".to_owned()),
            (("order", 8).into(), "order/8".to_owned()),
            (("offer", 7).into(), "offer/7".to_owned()),
            (order.into(), order.to_string()),
            (("order", &order).into(), format!("order/{order}")),
            (u128::MAX.into(), u128::MAX.to_string()),
            (i128::MIN.into(), i128::MIN.to_string()),
        ];
        for (key, _) in keys.iter().chain(&keys) {
            world.timers.timer(&addr, TimerOptions::new().key(key)).schedule(ms(10), Note(1));
        }
        assert_eq!(world.pending(), 7);
        for other in [TimerKey::from(7), TimerKey::from(Uuid::nil())] {
            assert_eq!(world.timers.cancel_key(&addr, other), CancelOutcome::NotFound);
        }
        let written = |text: &str| world.timers.list(&TimerFilter::new().key_written_as(text)).len();
        for (key, text) in keys {
            assert_eq!(world.timers.list(&TimerFilter::new().key(&key))[0].key.as_ref(), Some(&key));
            assert_eq!((written(&text), written(&format!("+{text}"))), (1, 0));
            assert_eq!(world.timers.cancel_key(&addr, &text), CancelOutcome::NotFound);
            assert_eq!(world.timers.cancel_key(&addr, key), CancelOutcome::Cancelled);
        }
        let digits = [("order", "7"), ("7", "7")].map(TimerKey::from);
        digits
            .iter()
            .for_each(|key| _ = world.timers.timer(&addr, TimerOptions::new().key(key)).schedule(ms(10), Note(1)));
        assert_eq!((written("order/7"), written("7/7"), written("7")), (1, 1, 0));
        let many = TimerKey::from((("7", "7", "7"), ("7", "7", "x")));
        world.timers.timer(&addr, TimerOptions::new().key(many)).schedule(ms(10), Note(1));
        assert_eq!((written("7/7/7/7/7/x"), written(&"7/".repeat(1000))), (1, 0));
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

    trait Kind {
        type Id;
    }

    struct Order;

    impl Kind for Order {
        type Id = u64;
    }

    /// Its parameter is no key.
    #[derive(TimerKey)]
    struct Of<K: Kind>(K::Id);

    #[derive(TimerKey)]
    struct Texts<'a, K>(&'static str, &'a str, K);

    #[derive(TimerKey)]
    struct OrderId(Uuid);

    /// The derive names what others should not.
    #[deny(warnings)]
    mod phased_out {
        #[derive(super::TimerKey)]
        pub(super) enum Task {
            Retry,
            #[deprecated]
            Resend(u8),
        }
    }

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
            (TimerKey::from(Of::<Order>(7)), TimerKey::from(("Of", 7))),
            (TimerKey::from(Texts("a", "b", 7)), TimerKey::from(("Texts", "a", "b", 7))),
            (TimerKey::from(&&OrderId(Uuid::nil())), TimerKey::from(("OrderId", Uuid::nil()))),
            (TimerKey::from(&("a", &Unit)), TimerKey::from(("a", "Unit"))),
        ] {
            assert_eq!(key, expected);
        }
    }

    #[test]
    #[allow(deprecated)]
    fn a_variant_that_is_deprecated_makes_a_key_without_a_warning() {
        use phased_out::Task;
        assert_eq!(TimerKey::from(Task::Retry), TimerKey::from("Task::Retry"));
        assert_eq!(TimerKey::from(Task::Resend(7)), TimerKey::from(("Task::Resend", 7)));
    }
}
