//! The store as applications use it: durable timers with a route to an actor that notes its messages.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::{Durable, DurableTimers, HandlerError, RouteOptions};
use bench::durable::Remind;
use tokio::sync::oneshot;

use crate::node::Place;
use crate::timer::ROUTE;
use crate::workloads::GROUP;

/// A handled message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) number: u64,
    pub(crate) due: SystemTime,
    pub(crate) handled: SystemTime,
}

impl Note {
    /// Returns the time from the due time to the handler.
    pub(crate) fn late(&self) -> Duration {
        self.handled.duration_since(self.due).expect("no timer is early")
    }
}

/// The handled messages of all nodes.
#[derive(Default)]
pub(crate) struct Handled(Mutex<Vec<Note>>);

impl Handled {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Takes the notes.
    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Waits until this many messages were handled.
    pub(crate) async fn wait_for(&self, count: usize) {
        let patience = Instant::now() + Duration::from_secs(120);
        while self.count() < count {
            assert!(Instant::now() < patience, "{} of {count} messages were handled", self.count());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

struct Office {
    handled: Arc<Handled>,
}

impl Actor for Office {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        let (number, due, handled) = (remind.message.number, remind.due.into(), SystemTime::now());
        self.handled.0.lock().unwrap().push(Note { number, due, handled });
        Ok(())
    }
}

/// Starts a node that delivers, in the current system.
pub(crate) async fn start(place: &Place, handled: &Arc<Handled>) -> DurableTimers {
    let office = Office { handled: Arc::clone(handled) }.start();
    let store = place.connect().await;
    // As many timers are with handlers as a plain worker picks.
    let options = RouteOptions::new().window(GROUP);
    DurableTimers::builder(store).route_with::<Remind>(ROUTE, office, options).start().unwrap()
}

/// Starts a node that delivers nothing.
pub(crate) async fn start_web(place: &Place) -> DurableTimers {
    let store = place.connect().await;
    DurableTimers::builder(store).name("web").declare::<Remind>(ROUTE).schedule_only().start().unwrap()
}

/// A node on a thread of its own.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(place: &Arc<Place>, handled: &Arc<Handled>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (started, is_started) = std::sync::mpsc::channel();
        let (place, handled) = (Arc::clone(place), Arc::clone(handled));
        let thread = thread::spawn(move || {
            System::new().block_on(async {
                let timers = self::start(&place, &handled).await;
                started.send(()).unwrap();
                stopped.await.unwrap();
                timers.stop().await.unwrap();
            });
        });
        is_started.recv().unwrap();
        Self { stop, thread }
    }

    pub(crate) fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}
