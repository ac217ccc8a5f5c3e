//! Tests of the list of subscribers.

use actix::prelude::*;

use super::*;
use crate::TimerActorBuilder;

struct Clerk;

impl Actor for Clerk {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Clerk {
    type Result = ();

    fn handle(&mut self, _: DeadLetter, _: &mut Context<Self>) {}
}

#[test]
fn a_stopped_subscriber_is_removed_though_its_address_is_held() {
    let actor = TimerActorBuilder::default().build().unwrap();
    let context = Context::<Clerk>::new();
    let addr = context.address();
    actor.service().subscribe(&addr.clone().recipient());
    assert_eq!(actor.service().subscribers.reachable().len(), 1);
    assert!(actor.service().subscribers.any.load(Ordering::Acquire));
    drop(context);
    assert_eq!(actor.service().subscribers.reachable().len(), 0);
    assert!(!actor.service().subscribers.any.load(Ordering::Acquire));
    drop(addr);
}

#[test]
fn stopped_subscribers_do_not_wait_for_a_letter() {
    let actor = TimerActorBuilder::default().build().unwrap();
    for _ in 0..100 {
        actor.service().subscribe(&Context::<Clerk>::new().address().recipient());
    }
    let listed = actor.service().subscribers.change(|list| list.len());
    assert!(listed <= 1, "{listed} are listed");
}
