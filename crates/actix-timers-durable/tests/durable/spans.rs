//! The span of a delivery: it lasts until the delivery ends, and names the trace that scheduled the timer.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DurableOptions, HandlerError, RouteOptions, Schedule};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Metadata, Subscriber, info};

use support::durable::{Note, ROUTE, life, ms, quick, timers_to};

/// A subscriber that notes the spans of deliveries, and events with the number of their span.
#[derive(Clone, Default)]
pub(crate) struct Story {
    pub(crate) noted: Arc<Mutex<Noted>>,
    /// Called after each event, and at the end of each span; then all are noted.
    pub(crate) panics: Option<fn() -> !>,
}

#[derive(Default)]
pub(crate) struct Noted {
    /// Fields and end of each span, by its id less one.
    spans: Vec<(String, bool)>,
    entered: Vec<u64>,
    pub(crate) events: Vec<(String, Option<u64>)>,
}

impl Story {
    pub(crate) fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap()
    }
}

fn text(note: impl FnOnce(&mut dyn FnMut(&Field, &dyn Debug))) -> String {
    let mut text = String::new();
    note(&mut |field, value| text += &format!("{field}={value:?} "));
    text
}

impl Subscriber for Story {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        self.panics.is_some() || of.name() == "durable_delivery" || of.target() == module_path!()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert!(span.is_root() || self.panics.is_some());
        let mut noted = self.noted();
        noted.spans.push((text(|mut note| span.record(&mut note)), false));
        Id::from_u64(noted.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut noted = self.noted();
        let within = noted.entered.last().copied();
        noted.events.push((text(|mut note| event.record(&mut note)), within));
        drop(noted);
        if let Some(panics) = self.panics {
            panics();
        }
    }

    fn enter(&self, id: &Id) {
        self.noted().entered.push(id.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.noted().entered.pop();
    }

    fn try_close(&self, id: Id) -> bool {
        self.noted().spans[id.into_u64() as usize - 1].1 = true;
        if let Some(panics) = self.panics {
            panics();
        }
        true
    }
}

#[test]
fn a_handler_runs_in_a_span_with_the_trace_of_its_headers() {
    let story = Story::default();
    let _subscribed = tracing::subscriber::set_default(story.clone());
    life(0, async |clock| {
        let route = RouteOptions::new().retry(quick());
        let timers = timers_to(&MemoryDisk::new(), &clock, route, async |note| {
            let handling = async {
                info!(attempt = note.attempt, "handles");
                if note.attempt == 1 { Err(HandlerError::new("not now")) } else { Ok(()) }
            };
            handling.instrument(note.span()).await
        });
        let options = DurableOptions::new().header("traceparent", "00-4bf9-00f0-01");
        let id = timers.schedule(Schedule::after(ROUTE, ms(10), Note(1)).options(options)).await.unwrap().id();
        clock.advance(ms(9)).await;
        assert!(story.noted().spans.is_empty());
        clock.advance(ms(5000)).await;
        let noted = story.noted();
        let [(first, true), (second, true)] = &noted.spans[..] else { panic!("{:?}", noted.spans) };
        for (attempt, fields) in [(1, first), (2, second)] {
            let expected = format!(
                "id={id} route=\"{ROUTE}\" message_type=\"note\" attempt={attempt} repetition=1 \
                 traceparent=\"00-4bf9-00f0-01\" "
            );
            assert_eq!(*fields, expected);
        }
        let handled = |attempt: u64| (format!("message=handles attempt={attempt} "), Some(attempt));
        assert_eq!(noted.events, [handled(1), handled(2)]);
    });
}
