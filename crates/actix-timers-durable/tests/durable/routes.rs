//! Routes and message types whose names have changed.

use actix::prelude::*;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableBuildError, DurableMessage, DurableTimers, HandlerError, MemoryStore, Route, RouteOptions,
};
use serde::{Deserialize, Serialize};
use support::durable::{Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, run_to};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

on_every_store! {
    former_names_are_delivered_and_new_timers_have_new_names
}

/// A build that has renamed the type of the message, and its route.
#[derive(Debug, PartialEq, Serialize, Deserialize, DurableMessage)]
#[durable("memo", alias = "note")]
struct Memo(u32);

const MEMOS: Route<Memo> = Route::new("memos");

struct Secretary(UnboundedSender<u32>);

impl Actor for Secretary {
    type Context = Context<Self>;
}

impl Handler<Durable<Memo>> for Secretary {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, memo: Durable<Memo>, _: &mut Context<Self>) -> Self::Result {
        self.0.send(memo.0).unwrap();
        Ok(())
    }
}

fn former_names_are_delivered_and_new_timers_have_new_names(medium: impl Medium) {
    life(0, async |clock| {
        let diary = Diary::default();
        let timers = diary.timers(&medium, &clock);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        timers.stop().await.unwrap();
    });
    life(20, async |clock| {
        let (sender, mut handled) = unbounded_channel();
        let build = |options| {
            DurableTimers::builder(medium.open())
                .clock(clock.clone())
                .route_with(MEMOS, Secretary(sender.clone()).start(), options)
                .start()
                .unwrap()
        };
        let timers = build(RouteOptions::new());
        clock.settle().await;
        assert!(handled.try_recv().is_err(), "the former route is not known");
        timers.stop().await.unwrap();
        let timers = build(RouteOptions::new().alias(ROUTE));
        let second = timers.schedule_after(MEMOS, ms(5), Memo(2)).await.unwrap();
        let found = timers.get(second.id()).await.unwrap().unwrap();
        assert_eq!((&*found.route, &*found.message_type), ("memos", "memo"));
        run_to(&clock, 100).await;
        assert_eq!((handled.try_recv(), handled.try_recv()), (Ok(1), Ok(2)));
        timers.stop().await.unwrap();
    });
}

#[actix::test]
async fn a_former_name_cannot_be_that_of_another_route() {
    let builder = DurableTimers::builder(MemoryStore::new()).open_route::<Note>(ROUTE);
    let error = builder.open_route_with(MEMOS, RouteOptions::new().alias(ROUTE)).start().map(drop).unwrap_err();
    assert!(
        matches!(&error, DurableBuildError::RouteTwice { route, message_type: "note" } if route == ROUTE),
        "{error}"
    );
}
