//! Spans and events for a subscriber of `tracing`: the way of a message from the call that schedules it to its handler.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use actix::prelude::{ActorContext, Addr};
use actix_timers::{
    CancelOutcome, DeadLetterReason, MailboxPolicy, MessageSource, Repeat, Target, TimerActor, TimerContext,
    TimerOptions, Timers,
};
use support::{Note, Probe, Run, World, count_panics, in_virtual_time, ms, panic_on_purpose, run};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber, info, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::Text;

#[derive(Debug, Clone)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    follows: Vec<u64>,
    fields: String,
    is_open: bool,
}

#[derive(Debug, Default)]
struct Story {
    spans: Vec<Seen>,
    /// Numbers in use now.
    numbers: BTreeMap<u64, usize>,
    /// Text, and the span it happened in.
    events: Vec<(String, Option<usize>)>,
}

impl Story {
    fn named(&self, name: &str) -> Vec<(usize, &Seen)> {
        self.spans.iter().enumerate().filter(|(_, span)| span.name == name).collect()
    }

    fn the(&self, name: &str) -> (usize, &Seen) {
        let named = self.named(name);
        assert_eq!(named.len(), 1, "{named:?}");
        named[0]
    }

    /// Returns the span of the one event with this text.
    fn place_of(&self, text: &str) -> usize {
        let found: Vec<_> = self.events.iter().filter(|(event, _)| event.contains(text)).collect();
        assert_eq!(found.len(), 1, "{:?}", self.events);
        found[0].1.unwrap()
    }

    fn open(&self, name: &str) -> usize {
        self.named(name).iter().filter(|(_, span)| span.is_open).count()
    }
}

/// Records spans and events.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Story>>);

impl Witness {
    fn story(&self) -> MutexGuard<'_, Story> {
        self.0.lock().unwrap()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Witness {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Text::default();
        attributes.record(&mut fields);
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        let mut story = self.story();
        let parent = parent.map(|parent| story.numbers[&parent] as u64);
        let (name, number) = (attributes.metadata().name(), story.spans.len());
        story.spans.push(Seen { name, parent, follows: Vec::new(), fields: fields.0, is_open: true });
        story.numbers.insert(id.into_u64(), number);
    }

    fn on_follows_from(&self, span: &Id, follows: &Id, _: Context<'_, S>) {
        let mut story = self.story();
        let (span, follows) = (story.numbers[&span.into_u64()], story.numbers[&follows.into_u64()]);
        story.spans[span].follows.push(follows as u64);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let place = context.event_span(event).map(|span| span.id().into_u64());
        let mut story = self.story();
        let place = place.map(|place| story.numbers[&place]);
        story.events.push((Text::of(event), place));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut story = self.story();
        let number = story.numbers[&id.into_u64()];
        story.spans[number].is_open = false;
    }
}

/// Runs a test in both kinds of virtual time, each with its own witness.
fn witnessed<F: Future<Output = ()>>(most: LevelFilter, test: impl Fn(World, Witness) -> F) {
    let _alone = super::alone();
    // The two worlds are separate: a witness sees one of them.
    let witnesses = [Witness::default(), Witness::default()];
    let number = std::cell::Cell::new(0);
    let subscriber = |witness: &Witness| Registry::default().with(witness.clone().with_filter(most));
    let guards = std::cell::RefCell::new(Vec::new());
    in_virtual_time(TimerActor::builder, |world| {
        let witness = witnesses[number.replace(number.get() + 1)].clone();
        guards.borrow_mut().clear();
        guards.borrow_mut().push(tracing::subscriber::set_default(subscriber(&witness)));
        test(world, witness)
    });
}

fn all() -> LevelFilter {
    LevelFilter::TRACE
}

#[test]
fn the_delivery_is_linked_to_the_call_that_scheduled() {
    witnessed(all(), |world, witness| async move {
        let (addr, log) = world.probe_with(|probe| probe.hook = Box::new(|_, _| info!("handled")));
        let id = run(&addr, |_, ctx| info_span!("call").in_scope(|| ctx.schedule_after(ms(250), Note(1)))).await;
        {
            let story = witness.story();
            let (call, seen) = story.the("call");
            assert!(!seen.is_open, "the call is over, however long its timer waits");
            assert_eq!(story.place_of("scheduled"), call);
            let (_, timer) = story.the("timer");
            assert_eq!((&timer.follows[..], timer.parent, timer.is_open), (&[call as u64][..], None, true));
            assert!(timer.fields.contains(&format!("id={id}")), "{}", timer.fields);
            assert!(timer.fields.contains("delay_seconds=0.25"), "{}", timer.fields);
        }
        world.run_to(250).await;
        assert_eq!(log.names(), [1]);
        let story = witness.story();
        let (timer, seen) = story.the("timer");
        assert!(!seen.is_open, "it ends with its delivery");
        let (deliver, seen) = story.the("deliver");
        assert_eq!((seen.parent, seen.is_open), (Some(timer as u64), false));
        assert!(seen.fields.contains("lag_seconds=0.0"), "{}", seen.fields);
        assert_eq!(story.place_of("handled"), deliver, "the handler runs in it");
    });
}

#[test]
fn messages_for_recipients_have_such_spans_too() {
    witnessed(all(), |world, witness| async move {
        let (addr, log) = world.probe();
        world.after(&addr, 10, 1);
        world.timers.addr().do_send(actix_timers::ScheduleAfter::new(&addr, ms(20), Note(2)));
        world.run_to(30).await;
        assert_eq!(log.names(), [1, 2]);
        let story = witness.story();
        let (timers, deliveries) = (story.named("timer"), story.named("deliver"));
        let of: Vec<_> = deliveries.iter().map(|(_, span)| span.parent.unwrap() as usize).collect();
        assert_eq!(of, timers.iter().map(|(number, _)| *number).collect::<Vec<_>>());
        assert_eq!((story.open("timer"), story.open("deliver")), (0, 0));
    });
}

#[test]
fn a_repeating_timer_is_one_span_with_many_deliveries() {
    witnessed(all(), |world, witness| async move {
        let (addr, log) = world.probe();
        let id = run(&addr, |_, ctx| ctx.schedule_at_fixed_rate(ms(10), Note(1))).await;
        world.run_to(50).await;
        assert_eq!(log.len(), 5);
        assert_eq!(witness.story().named("deliver").len(), 5);
        assert_eq!(witness.story().open("timer"), 1);
        assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
        world.run_to(1000).await;
        assert_eq!(witness.story().open("timer"), 0);
    });
}

/// There is one warning, whatever their number, and at its level nothing else.
#[test]
fn each_dead_letter_is_an_event() {
    for (most, events) in [(LevelFilter::WARN, 0), (LevelFilter::DEBUG, 5)] {
        witnessed(most, |world, witness| async move {
            let (addr, _log) = world.probe();
            let ids: Vec<_> = (0..5).map(|name| world.after(&addr, 10, name)).collect();
            drop(addr);
            world.run_to(20).await;
            let story = witness.story();
            let starting = |start: &str| -> Vec<_> {
                story.events.iter().map(|(text, _)| text).filter(|text| text.starts_with(start)).collect()
            };
            let warnings = starting("message=a message became a dead letter ");
            assert_eq!(warnings.len(), 1, "{:?}", story.events);
            assert!(warnings[0].contains(&format!("id={} ", ids[0])), "{warnings:?}");
            let dead_letters = starting("message=dead letter ");
            assert_eq!(dead_letters.len(), events, "{:?}", story.events);
            for (id, text) in ids.iter().zip(dead_letters) {
                assert!(text.contains(&format!("id={id} ")) && text.contains("reason=\"recipient_stopped\""), "{text}");
            }
            if most == LevelFilter::WARN {
                assert_eq!((story.events.len(), story.spans.len()), (1, 0), "{:?}", story.events);
            }
        });
    }
}

/// Ends timers in some way, and asserts that their spans are closed when nothing is pending any more.
fn spans_end(way: impl Fn(&World, &Addr<Probe<u32>>)) {
    witnessed(all(), |world, witness| {
        let (addr, _log) = world.probe();
        way(&world, &addr);
        async move {
            world.run_to(200).await;
            assert!(!witness.story().named("timer").is_empty());
            drop(addr);
            world.run_to(1000).await;
            assert_eq!(world.pending(), 0);
            assert_eq!(witness.story().open("timer"), 0);
        }
    });
}

#[test]
fn spans_end_with_their_timers_in_every_way() {
    // Cancelled, replaced, and drained.
    spans_end(|world, addr| {
        let id = world.after(addr, 10, 1);
        assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
    });
    spans_end(|world, addr| {
        for name in 0..10 {
            world.timers.timer(addr, TimerOptions::new().key("key")).schedule(ms(50), Note(name));
        }
    });
    spans_end(|world, addr| {
        world.timers.timer(addr, TimerOptions::new().group("group")).schedule(ms(50), Note(1));
        world.timers.cancel_group("group");
    });
    spans_end(|world, addr| {
        world.after(addr, 1000, 1);
        drop(world.timers.drain());
    });
    // With their actor.
    spans_end(|_, addr| {
        addr.do_send(Run(Box::new(|_, ctx| {
            ctx.schedule_after(Duration::from_secs(3600), Note(1));
        })));
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
    });
}

/// One of the ways to a probe.
type Way = fn(&Addr<Probe<u32>>) -> Target<Note<u32>>;

#[test]
fn spans_end_however_messages_are_delivered_or_lost() {
    let ways: [Way; 4] = [
        |addr| Target::from(addr),
        |addr| Target::from(addr).window(1),
        |addr| Target::from(addr).mailbox_policy(MailboxPolicy::Discard { window: 1 }),
        |addr| Target::tracked(addr),
    ];
    for target in ways {
        spans_end(|world, addr| {
            for name in 0..40 {
                world.after(target(addr), 5, name);
            }
        });
        spans_end(|world, addr| {
            for name in 0..10 {
                world.after(target(addr), 5, name);
            }
            addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        });
    }
    spans_end(|world, addr| {
        world.timers.schedule_at_fixed_rate(addr, Repeat::every(ms(5)).times(3), Note(1));
    });
    spans_end(|world, addr| {
        count_panics();
        let source = MessageSource::from_fn(|| -> Note<u32> {
            panic_on_purpose();
            Note(1)
        });
        world.timers.schedule_at_fixed_rate(addr, Repeat::every(ms(5)), source);
    });
}

/// A filter and a subscriber may use timers themselves: no lock is held while they are called. The filter is asked again
/// each time.
#[test]
fn a_subscriber_may_use_timers() {
    thread_local! {
        static TIMERS: RefCell<Option<Timers>> = const { RefCell::new(None) };
    }
    fn meddle() -> bool {
        TIMERS.with_borrow(|timers| timers.as_ref().map(Timers::snapshot)).is_some()
    }
    struct Meddler;
    impl<S: Subscriber> Layer<S> for Meddler {
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }

        fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
            meddle()
        }

        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            meddle();
        }

        fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
            meddle();
        }

        fn on_close(&self, _: Id, _: Context<'_, S>) {
            meddle();
        }
    }
    let _alone = super::alone();
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe::<u32>();
        let _guard = tracing::subscriber::set_default(Registry::default().with(Meddler));
        TIMERS.set(Some(world.timers.clone()));
        let id = world.after(&addr, 10, 0);
        assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
        world.after(&addr, 1, 1);
        world.after(Target::tracked(&addr), 2, 2);
        world.after(Target::from(&addr).window(1), 3, 3);
        run(&addr, |_, ctx| ctx.schedule_after(ms(4), Note(4))).await;
        world.run_to(5).await;
        assert_eq!(log.names(), [1, 2, 3, 4]);
        run(&addr, |_, ctx| ctx.stop()).await;
        for target in [Target::from(&addr), Target::tracked(&addr)] {
            world.after(target, 1, 5);
        }
        world.run_to(10).await;
        assert_eq!(world.timers.snapshot().counters.dead_letters(DeadLetterReason::RecipientStopped), 2);
        drop(world.timers.drain());
        TIMERS.set(None);
    });
}

#[cfg(feature = "durable")]
#[test]
fn internal_timers_of_durable_timers_leave_no_span_or_event() {
    use support::durable::{Act, Diary, ROUTE, at, life, run_to};

    let _alone = super::alone();
    let witness = Witness::default();
    let _guard = tracing::subscriber::set_default(Registry::default().with(witness.clone().with_filter(all())));
    life(0, async |clock| {
        let diary = Diary::default();
        let disk = actix_timers_durable::store::MemoryDisk::new();
        let timers = diary.timers(&disk, &clock);
        diary.script(0, [Act::Hang]);
        for note in 0..10 {
            let due = at(100 * u64::from(note + 1));
            let _ = timers.schedule_at(ROUTE, due, support::durable::Note(note)).await.unwrap();
        }
        run_to(&clock, 500).await;
        assert_eq!(diary.len(), 5);
        // The system ends without a stop.
    });
    let story = witness.story();
    let of_timers = |name: &str| ["timer", "deliver"].contains(&name);
    assert_eq!(story.spans.iter().filter(|span| of_timers(span.name)).count(), 0);
    let told: Vec<_> = story.events.iter().filter(|(text, _)| text.contains("actix_timers_durable")).collect();
    assert!(told.is_empty(), "{told:?}");
    assert!(!story.events.iter().any(|(text, _)| text.contains("message=scheduled ")), "{:?}", story.events);
}

#[test]
fn an_actor_that_loses_its_last_address_leaves_an_event() {
    for (keeps_alive, events) in [(false, 1), (true, 0)] {
        witnessed(all(), |world, witness| async move {
            let (addr, _) = world.probe::<u32>();
            run(&addr, move |_, ctx| {
                let options = || TimerOptions::new().keep_alive(keeps_alive);
                ctx.timer(options()).schedule(ms(10), Note(1));
                ctx.timer(options()).schedule(ms(20), Note(2));
            })
            .await;
            drop(addr);
            world.run_to(100).await;
            let story = witness.story();
            let of_it: Vec<_> = story.events.iter().filter(|(text, _)| text.contains("without an address")).collect();
            assert_eq!(of_it.len(), events, "{of_it:?}");
            assert!(
                of_it.iter().all(|(text, _)| text.contains("Probe<u32>") && text.contains("timers=2")),
                "{of_it:?}"
            );
        });
    }
}
