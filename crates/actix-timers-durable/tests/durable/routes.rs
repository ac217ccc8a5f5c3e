//! Routes and message types whose names have changed.

use std::cell::RefCell;
use std::rc::Rc;

use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableBuildError, DurableFilter, DurableMessage, DurableTimers, MemoryStore, Route, RouteOptions,
};
use serde::{Deserialize, Serialize};
use support::durable::{Diary, Files, Medium, Note, ROUTE, handled_by, life, ms, notes, on_every_store, run_to};

on_every_store! {
    former_names_are_delivered_and_new_timers_have_new_names
}

/// A build that has renamed the type of the message, and its route.
#[derive(Debug, PartialEq, Serialize, Deserialize, DurableMessage)]
#[durable("memo", alias = "note")]
struct Memo(u32);

const MEMOS: Route<Memo> = Route::new("memos");

fn former_names_are_delivered_and_new_timers_have_new_names(medium: impl Medium) {
    life(0, async |clock| {
        let timers = Diary::default().timers(&medium, &clock);
        notes(&timers, ROUTE, [(1, 10)]).await;
        timers.stop().await.unwrap();
    });
    life(20, async |clock| {
        let handled = Rc::<RefCell<Vec<u32>>>::default();
        let build = |options| {
            let handles = Rc::clone(&handled);
            let secretary = handled_by(async move |memo: Durable<Memo>| {
                handles.borrow_mut().push(memo.0);
                Ok(())
            });
            let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
            builder.route_with(MEMOS, secretary, options).start().unwrap()
        };
        let timers = build(RouteOptions::new());
        let former = &timers.list(DurableFilter::new()).await.unwrap().timers[0];
        assert_eq!((&*former.message_type, former.message::<Memo>()), ("note", Ok(Memo(1))));
        clock.settle().await;
        assert!(handled.borrow().is_empty(), "the former route is not known");
        timers.stop().await.unwrap();
        let timers = build(RouteOptions::new().alias(ROUTE));
        let second = timers.schedule_after(MEMOS, ms(5), Memo(2)).await.unwrap();
        let found = timers.get(second.id()).await.unwrap().unwrap();
        assert_eq!((&*found.route, &*found.message_type), ("memos", "memo"));
        run_to(&clock, 100).await;
        assert_eq!(*handled.borrow(), [1, 2]);
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
