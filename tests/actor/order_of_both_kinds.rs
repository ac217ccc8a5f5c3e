//! Order for one recipient across both kinds of timers: an actor's own, and the ones that others made for it.

use std::cell::RefCell;
use std::rc::Rc;

use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext, TimerId, Timers};
use support::{World, ms, paused};

#[derive(Message)]
#[rtype(result = "()")]
struct Note(u32);

#[derive(Message)]
#[rtype(result = "()")]
struct Run(#[allow(clippy::type_complexity)] Box<dyn FnOnce(&mut Probe, &mut Context<Probe>) + Send>);

type Log = Rc<RefCell<Vec<u32>>>;

/// Records its messages. 99 stops it, and at 1 it cancels a rival.
#[derive(Default)]
struct Probe {
    log: Log,
    rival: Option<TimerId>,
    outcome: Rc<RefCell<Option<CancelOutcome>>>,
}

impl Actor for Probe {
    type Context = Context<Self>;
}

impl Supervised for Probe {}

impl Handler<Note> for Probe {
    type Result = ();

    fn handle(&mut self, Note(number): Note, ctx: &mut Self::Context) {
        self.log.borrow_mut().push(number);
        if let Some(rival) = self.rival.take() {
            *self.outcome.borrow_mut() = Some(ctx.cancel_timer(rival));
        }
        if number == 99 {
            ctx.stop();
        }
    }
}

impl Handler<Run> for Probe {
    type Result = ();

    fn handle(&mut self, Run(code): Run, ctx: &mut Self::Context) {
        code(self, ctx);
    }
}

/// Schedules the numbers in the given order after the given delays; even ones through the context, odd ones as a
/// target.
async fn schedule(addr: &Addr<Probe>, timers: Vec<(u64, u32)>) {
    let code = move |_: &mut Probe, ctx: &mut Context<Probe>| {
        for (delay, number) in timers {
            if number % 2 == 0 {
                ctx.schedule_after(ms(delay), Note(number));
            } else {
                Timers::current().unwrap().schedule_after(ctx.address(), ms(delay), Note(number));
            }
        }
    };
    addr.send(Run(Box::new(code))).await.unwrap();
}

#[test]
fn within_one_tick_own_and_foreign_messages_keep_the_order_of_scheduling() {
    paused(async {
        let log = Log::default();
        let addr = Probe { log: Rc::clone(&log), ..Probe::default() }.start();
        let numbers: Vec<u32> = vec![2, 1, 4, 6, 3, 5, 7, 8, 9, 10];
        schedule(&addr, numbers.iter().map(|number| (10, *number)).collect()).await;
        tokio::time::sleep(ms(50)).await;
        assert_eq!(*log.borrow(), numbers);
        assert!(Timers::current().unwrap().snapshot().counters.balance());
    });
}

#[test]
fn a_driver_that_is_late_keeps_the_order_of_deadlines() {
    paused(async {
        let log = Log::default();
        let addr = Probe { log: Rc::clone(&log), ..Probe::default() }.start();
        schedule(&addr, vec![(50, 9), (10, 2), (40, 8), (30, 5), (20, 3), (25, 4)]).await;
        tokio::time::advance(ms(100)).await;
        tokio::time::sleep(ms(1)).await;
        assert_eq!(*log.borrow(), [2, 3, 4, 5, 8, 9]);
    });
}

#[test]
fn a_foreign_message_behind_an_own_one_can_be_cancelled_by_the_actor() {
    paused(async {
        let (log, outcome) = (Log::default(), Rc::default());
        let addr = Probe { log: Rc::clone(&log), outcome: Rc::clone(&outcome), rival: None }.start();
        let code = |probe: &mut Probe, ctx: &mut Context<Probe>| {
            ctx.schedule_after(ms(10), Note(2));
            let timers = Timers::current().unwrap();
            probe.rival = Some(timers.schedule_after(ctx.address(), ms(10), Note(1)));
        };
        addr.send(Run(Box::new(code))).await.unwrap();
        tokio::time::sleep(ms(50)).await;
        assert_eq!((log.borrow().as_slice(), *outcome.borrow()), ([2].as_slice(), Some(CancelOutcome::Cancelled)));
        assert_eq!(Timers::current().unwrap().snapshot().pending(), 0);
    });
}

#[test]
fn foreign_messages_survive_a_restart_even_behind_a_message_of_the_old_incarnation() {
    paused(async {
        let log = Log::default();
        let probe = Probe { log: Rc::clone(&log), ..Probe::default() };
        let addr = Supervisor::start(|_| probe);
        let code = |_: &mut Probe, ctx: &mut Context<Probe>| {
            ctx.schedule_after(ms(10), Note(2));
            // Stops the actor: messages behind it in the inbox go to the next incarnation, or end.
            ctx.schedule_after(ms(10), Note(99));
            Timers::current().unwrap().schedule_after(ctx.address(), ms(10), Note(1));
            ctx.schedule_after(ms(10), Note(4));
        };
        addr.send(Run(Box::new(code))).await.unwrap();
        tokio::time::sleep(ms(50)).await;
        assert_eq!(*log.borrow(), [2, 99, 1], "its own 4 ended with the old incarnation");
        let counters = Timers::current().unwrap().snapshot().counters;
        assert!(counters.balance());
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (3, 1, 0));
    });
}

/// The owner of the inbox with queued messages ends while they are due, and time passes meanwhile: messages due later
/// come after all of them, however few are sent in one turn, and whether or not the next incarnation has own timers.
#[test]
fn foreign_messages_are_not_overtaken_when_the_actor_restarts() {
    for expiry_budget in [1, 2, 256] {
        for sets_a_timer_when_restarted in [false, true] {
            paused(async {
                let world = World::manual(TimerActor::builder().expiry_budget(expiry_budget));
                let clock = world.clock().hands.clone();
                let mut probe = support::Probe::new(world.watch.clone());
                probe.hook = Box::new(move |name, ctx| {
                    if *name == 2 {
                        clock.jump(ms(1));
                        ctx.stop();
                    }
                });
                let mut restarted = false;
                probe.on_start = Box::new(move |ctx| {
                    if std::mem::replace(&mut restarted, true) && sets_a_timer_when_restarted {
                        ctx.schedule_after(ms(0), support::Note(7));
                    }
                });
                let log = probe.log.clone();
                let addr = Supervisor::start(|_| probe);
                support::run(&addr, |_, ctx| {
                    ctx.schedule_after(ms(10), support::Note(2));
                    ctx.schedule_after(ms(10), support::Note(99));
                })
                .await;
                for foreign in [10, 11, 12] {
                    world.after(&addr, 10, foreign);
                }
                world.after(&addr, 11, 3);
                world.clock().hands.jump(ms(10));
                world.settle().await;
                let own: &[u64] = if sets_a_timer_when_restarted { &[7] } else { &[] };
                assert_eq!(log.names(), [&[2, 10, 11, 12, 3], own].concat(), "{expiry_budget} entries in a turn");
                let counters = world.timers.snapshot().counters;
                assert_eq!((counters.cancelled, counters.pending), (1, 0), "99 ended with the old incarnation");
            });
        }
    }
}
