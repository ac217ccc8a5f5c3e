//! Heartbeats at a fixed rate, and a monitor that detects missing ones.
//!
//! Three nodes beat every ten seconds. The monitor gives each node 25 seconds: a heartbeat moves the node's deadline,
//! and a node whose deadline passes is reported as missing. One node is cut off for a while and returns, one stops for
//! good.
//!
//! Virtual time makes five minutes pass at once: `cargo run --example heartbeat`. It fails if the reports are not
//! the expected ones.

use std::collections::BTreeMap;
use std::error::Error;
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

/// Cuts a node off from the network, or connects it again.
#[derive(Message)]
#[rtype(result = "()")]
struct Connected(bool);

struct Node {
    name: Name,
    monitor: Addr<Monitor>,
    connected: bool,
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
        if self.connected {
            self.monitor.do_send(Heartbeat(self.name));
        }
    }
}

impl Handler<Connected> for Node {
    type Result = ();

    fn handle(&mut self, Connected(connected): Connected, _: &mut Self::Context) {
        self.connected = connected;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Joined,
    Missing,
    Back,
}

/// A report: the event, the node and the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    at: u64,
    node: Name,
    what: What,
}

struct Monitor {
    began: Instant,
    /// The deadline of each node; `None` for a missing one.
    deadlines: BTreeMap<Name, TimerId>,
    events: mpsc::Sender<Event>,
}

impl Monitor {
    fn note(&mut self, node: Name, what: What) {
        let event = Event { at: self.began.elapsed().as_secs(), node, what };
        println!("{:>4} s  {node}: {what:?}", event.at);
        let _ = self.events.send(event);
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
        self.note(node, if known.is_some() { What::Back } else { What::Joined });
        self.deadlines.insert(node, ctx.schedule_after(PATIENCE, Missing(node)));
    }
}

impl Handler<Missing> for Monitor {
    type Result = ();

    fn handle(&mut self, Missing(node): Missing, _: &mut Self::Context) {
        self.note(node, What::Missing);
    }
}

/// The expected reports. Beats are due at every full ten seconds; 25 seconds after the last one a node is missing.
const EXPECTED: [Event; 6] = [
    Event { at: 10, node: "amsterdam", what: What::Joined },
    Event { at: 10, node: "berlin", what: What::Joined },
    Event { at: 10, node: "copenhagen", what: What::Joined },
    Event { at: 85, node: "berlin", what: What::Missing },
    Event { at: 120, node: "berlin", what: What::Back },
    Event { at: 225, node: "copenhagen", what: What::Missing },
];

async fn five_minutes() -> Result<(), MailboxError> {
    let began = Instant::now();
    let at = |seconds| tokio::time::sleep_until(began + Duration::from_secs(seconds));
    let (events, all_events) = mpsc::channel();
    let monitor = Monitor { began, deadlines: BTreeMap::new(), events }.start();
    let node = |name| Node { name, monitor: monitor.clone(), connected: true }.start();
    let (_amsterdam, berlin, copenhagen) = (node("amsterdam"), node("berlin"), node("copenhagen"));

    at(65).await;
    berlin.send(Connected(false)).await?;
    at(115).await;
    berlin.send(Connected(true)).await?;
    at(205).await;
    drop(copenhagen);
    at(300).await;
    assert_eq!(all_events.try_iter().collect::<Vec<_>>(), EXPECTED);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    Ok(System::with_tokio_rt(|| runtime).block_on(five_minutes())?)
}

#[test]
fn the_monitor_reports_missing_and_returned_nodes() -> Result<(), Box<dyn Error>> {
    main()
}
