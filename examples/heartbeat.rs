//! Heartbeats at a fixed rate, and a monitor that detects missing ones.
//!
//! Three nodes beat every ten seconds. The monitor gives each node 25 seconds: a heartbeat moves the node's deadline,
//! and a node whose deadline passes is reported as missing. One node is cut off for a while and returns, one stops for
//! good.
//!
//! Virtual time makes five minutes pass at once: `cargo run --example heartbeat`. It fails if the reports are not
//! the expected ones.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerId};
use tokio::time::Instant;

const PERIOD: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(25);

type Name = &'static str;

/// The message by which a node schedules its own beats.
#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Beat;

#[derive(Message)]
#[rtype(result = "()")]
struct Heartbeat(Name);

/// The time-out of a node's heartbeat.
#[derive(Message)]
#[rtype(result = "()")]
struct Missing(Name);

struct Node {
    name: Name,
    monitor: Addr<Monitor>,
    is_connected: Rc<Cell<bool>>,
}

impl Actor for Node {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // The repetition ends with the node, without any code here.
        ctx.schedule_at_fixed_rate(PERIOD, Beat);
    }
}

impl Handler<Beat> for Node {
    type Result = ();

    fn handle(&mut self, _: Beat, _: &mut Self::Context) {
        if self.is_connected.get() {
            self.monitor.do_send(Heartbeat(self.name));
        }
    }
}

/// A report: the second, the node and the event.
type Event = (u64, Name, &'static str);

struct Monitor {
    began: Instant,
    /// The deadline of each node; `None` for a missing one.
    deadlines: BTreeMap<Name, TimerId>,
    events: mpsc::Sender<Event>,
}

impl Monitor {
    fn report(&self, node: Name, event: &'static str) {
        let second = self.began.elapsed().as_secs();
        println!("{second:>4} s  {node} {event}");
        let _ = self.events.send((second, node, event));
    }
}

impl Actor for Monitor {
    type Context = Context<Self>;
}

impl Handler<Heartbeat> for Monitor {
    type Result = ();

    fn handle(&mut self, Heartbeat(node): Heartbeat, ctx: &mut Self::Context) {
        let known = self.deadlines.get(node).copied();
        if let Some(deadline) = known
            && ctx.reschedule_timer(deadline, PATIENCE).is_rescheduled()
        {
            return;
        }
        self.report(node, if known.is_some() { "is back" } else { "has joined" });
        self.deadlines.insert(node, ctx.schedule_after(PATIENCE, Missing(node)));
    }
}

impl Handler<Missing> for Monitor {
    type Result = ();

    fn handle(&mut self, Missing(node): Missing, _: &mut Self::Context) {
        self.report(node, "is missing");
    }
}

/// The expected reports. Beats are due at every full ten seconds; 25 seconds after the last one a node is missing.
const EXPECTED: [Event; 6] = [
    (10, "amsterdam", "has joined"),
    (10, "berlin", "has joined"),
    (10, "copenhagen", "has joined"),
    (85, "berlin", "is missing"),
    (120, "berlin", "is back"),
    (225, "copenhagen", "is missing"),
];

async fn five_minutes() {
    let began = Instant::now();
    let at = |seconds| tokio::time::sleep_until(began + Duration::from_secs(seconds));
    let (events, all_events) = mpsc::channel();
    let monitor = Monitor { began, deadlines: BTreeMap::new(), events }.start();
    let node = |name| {
        let is_connected = Rc::new(Cell::new(true));
        (Node { name, monitor: monitor.clone(), is_connected: Rc::clone(&is_connected) }.start(), is_connected)
    };
    let [_amsterdam, (_berlin, is_connected), copenhagen] = ["amsterdam", "berlin", "copenhagen"].map(node);

    at(65).await;
    is_connected.set(false);
    at(115).await;
    is_connected.set(true);
    at(205).await;
    drop(copenhagen);
    at(300).await;
    assert_eq!(all_events.try_iter().collect::<Vec<_>>(), EXPECTED);
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    System::with_tokio_rt(|| runtime).block_on(five_minutes());
    Ok(())
}

#[test]
fn the_monitor_reports_missing_and_returned_nodes() -> Result<(), Box<dyn Error>> {
    main()
}
