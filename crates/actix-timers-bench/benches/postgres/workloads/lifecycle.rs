//! Timers that come and go while many are pending: through the actor each is scheduled by a caller who awaits the reply,
//! delivered to a handler, and complete; the store alone makes the same changes in groups as large as the callers are
//! many.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::{DueTime, DurableTimers};

use super::{each, of_actor};
use crate::settings::Settings;
use crate::sql;
use crate::store::{self, Handled, Member, Place, settle};
use crate::timer::{Book, ROUTE, SHARDS, Timer};
use bench::rows::{OURS, Rows};

/// The concurrent callers; each awaits the reply to its own request.
const CALLERS: usize = 1024;
pub(crate) const ALONE: &str = "its statements alone";
/// The delay of each timer.
const DELAY: Duration = Duration::from_millis(1);

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let places = ["alone", "actor"].map(|schema| Place::new(settings, url, schema));
    for place in &places {
        let mut book = Book::new(settings.pending);
        store::fill(place, book.schedule(settings.pending as usize).into_iter());
    }
    let [alone, acting] = &places;
    let mut members = [Member::join(alone, "alone")];
    settle(&mut members, SHARDS);
    let [mut member] = members;
    let lives = settings.scaled(102_400, CALLERS);
    let (through_the_actor, by_itself) = System::new().block_on(async {
        let handled = Rc::<Handled>::default();
        let timers = store::start(acting, acting.connect("office").await, &handled).await;
        let client = sql::connect(url).await;
        let claims = format!("SELECT count(*) FROM {}.claims", acting.schema);
        let (mut through_the_actor, mut by_itself) = (Vec::new(), Vec::new());
        for round in 0..=settings.rounds {
            let started = Instant::now();
            let first = (round * lives) as u64;
            let callers = callers(&timers, first, lives / CALLERS);
            handled.wait_for((round + 1) * lives).await;
            // A timer is complete when the claim of its delivery is removed, with all others of it.
            while sql::number(&client, &claims).await > 0 {
                actix_rt::time::sleep(Duration::from_millis(1)).await;
            }
            let took = started.elapsed();
            assert!(callers.iter().all(actix_rt::task::JoinHandle::is_finished));
            let alone = live(&mut member, settings.pending + first, lives);
            if round > 0 {
                through_the_actor.push(each(took, lives));
                by_itself.push(each(alone, lives));
            }
        }
        for place in &places {
            let pending = format!("SELECT count(*) FROM {}.timers", place.schema);
            assert_eq!(sql::number(&client, &pending).await, settings.pending, "{place:?}");
        }
        assert_eq!(handled.count(), (settings.rounds + 1) * lives);
        timers.stop().await.unwrap();
        (through_the_actor, by_itself)
    });
    member.leave();
    rows.push(of_actor("lifecycle", OURS, settings.pending, "ns a life", through_the_actor));
    rows.push(of_actor("lifecycle", ALONE, settings.pending, "ns a life", by_itself));
}

/// Runs concurrent callers; each schedules this many timers, one after the other.
fn callers(timers: &DurableTimers, first: u64, calls: usize) -> Vec<actix_rt::task::JoinHandle<()>> {
    let caller = |caller: usize| {
        let timers = timers.clone();
        actix_rt::spawn(async move {
            for call in 0..calls {
                let number = first + (caller * calls + call) as u64;
                let scheduled = timers.schedule_after(ROUTE, DELAY, store::remind(number)).await.unwrap();
                assert!(scheduled.is_new());
            }
        })
    };
    (0..CALLERS).map(caller).collect()
}

/// Runs timers through the trait, due one after the other from now on.
fn live(member: &mut Member, first: u64, lives: usize) -> Duration {
    let now = DueTime::reached_at(SystemTime::now());
    let timer = |number| Timer { number, due: now.saturating_add(Duration::from_millis((number - first) / 100)) };
    let timers: Vec<_> = (first..first + lives as u64).map(timer).collect();
    let started = Instant::now();
    let numbers = member.live(&timers, CALLERS);
    let took = started.elapsed();
    assert!(numbers.len() == lives && numbers.iter().all(|number| (first..first + lives as u64).contains(number)));
    took
}
