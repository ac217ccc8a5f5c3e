//! The cost of an ordinary message to an actor with P timers pending.
//!
//! The actor and a partner on the same arbiter send each other one message at a time, so that each wakes the other. A
//! sample is the time of one message in each direction, shown with its ratio to the time without timers in the same
//! round.

use std::time::Instant;

use actix::prelude::*;
use tokio::sync::oneshot;

use crate::arguments::Arguments;
use crate::contenders::keepers::{ActorContext, Ours, install};
use crate::contenders::owner::{AT_ONCE, Keeper, Owner, Work, work};
use crate::rounds::{self, Life, Subject};
use bench::rows::{Row, Rows};

const WORKLOAD: &str = "message-cost";
const MESSAGES: usize = 10_000;
/// The maximum size for `notify_later`: with more timers a message takes milliseconds.
const MOST_FOR_THE_SLOW: usize = 100_000;
const MOST: usize = 1_000_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    if !arguments.wants_layer("context") {
        return;
    }
    let most = arguments.sizes.iter().copied().max().unwrap_or_default().min(MOST);
    let mut pending = vec![0, 1_000, MOST_FOR_THE_SLOW];
    pending.extend(&arguments.sizes);
    pending.retain(|pending| *pending <= most);
    pending.sort_unstable();
    pending.dedup();
    let ours = pending.iter().map(|pending| Subject::new("actix-timers", *pending, of_ours));
    let few = pending.iter().filter(|pending| **pending <= MOST_FOR_THE_SLOW);
    let peer = few.map(|pending| Subject::new("notify-later", *pending, of_notify_later));
    let costs = rounds::measure(arguments, "context", &[WORKLOAD], ours.chain(peer).collect(), None);
    let growth: Vec<Row> = costs.iter().filter_map(|cost| growth(cost, &costs)).collect();
    rows.extend(costs);
    rows.extend(growth);
}

/// Returns the ratio to the time without timers.
fn growth(cost: &Row, costs: &[Row]) -> Option<Row> {
    let bare = costs.iter().find(|bare| bare.size == 0 && bare.subject == cost.subject && cost.size > 0)?;
    let samples = cost.samples.iter().zip(&bare.samples).map(|(cost, bare)| cost / bare).collect();
    Some(Row { unit: "times the cost without timers".to_owned(), samples, ..cost.clone() })
}

fn of_ours(life: &mut Life, pending: usize) {
    System::new().block_on(async {
        let timers = install();
        ping_pong::<Ours>(life, pending, AT_ONCE, MESSAGES).await;
        assert_eq!(timers.snapshot().pending(), pending as u64);
    });
}

fn of_notify_later(life: &mut Life, pending: usize) {
    let messages = MESSAGES.min(2_000_000 / pending.max(1));
    System::new().block_on(ping_pong::<ActorContext>(life, pending, pending, messages));
}

async fn ping_pong<K: Keeper>(life: &mut Life<'_>, pending: usize, at_once: usize, messages: usize) {
    let owner = Owner::<K>::with_room_for(pending).start();
    work(&owner, pending, at_once, Work::Start).await;
    let (done, is_done) = oneshot::channel();
    let partner = Partner { owner, left: messages, done: Some(done) }.start();
    let began = Instant::now();
    partner.do_send(Pong);
    is_done.await.unwrap();
    life.keep(WORKLOAD, messages, began.elapsed());
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ping<K: Keeper>(Addr<Partner<K>>);

#[derive(Message)]
#[rtype(result = "()")]
struct Pong;

struct Partner<K: Keeper> {
    owner: Addr<Owner<K>>,
    left: usize,
    done: Option<oneshot::Sender<()>>,
}

impl<K: Keeper> Actor for Partner<K> {
    type Context = Context<Self>;
}

impl<K: Keeper> Handler<Pong> for Partner<K> {
    type Result = ();

    fn handle(&mut self, _: Pong, ctx: &mut Context<Self>) {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.owner.do_send(Ping(ctx.address()));
            }
            None => self.done.take().unwrap().send(()).unwrap(),
        }
    }
}

impl<K: Keeper> Handler<Ping<K>> for Owner<K> {
    type Result = ();

    fn handle(&mut self, Ping(partner): Ping<K>, _: &mut Context<Self>) {
        partner.do_send(Pong);
    }
}
