//! Virtual time takes no real time: it never waits for work that is not there, whatever the kind of timer.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::integration::given_up_settling;
use actix_timers::{
    Drain, MailboxPolicy, ScheduleBatch, Target, TimerActor, TimerContext, TimerOptions, Timers, testing,
};
use support::{Note, Probe, World, ms, paused, run};

type Subject = Addr<Probe<u32>>;
type Schedule = fn(&Timers, &Subject);

fn with_policy(addr: &Subject, policy: MailboxPolicy) -> Target<Note<u32>> {
    Target::from(addr).mailbox_policy(policy)
}

fn schedule(timers: &Timers, target: impl Into<Target<Note<u32>>>) {
    timers.schedule_after(target, ms(1), Note(1));
}

/// Each kind of target; its message is due after 1 ms.
const TARGETS: [(&str, Schedule); 10] = [
    ("plain", |timers, addr| schedule(timers, addr)),
    ("strong", |timers, addr| schedule(timers, Target::from(addr).strong())),
    ("tracked", |timers, addr| schedule(timers, Target::tracked(addr))),
    ("tracked with a window", |timers, addr| schedule(timers, Target::tracked(addr).window(1))),
    ("a window", |timers, addr| schedule(timers, Target::from(addr).window(2))),
    ("discarded", |timers, addr| schedule(timers, with_policy(addr, MailboxPolicy::Discard { window: 1 }))),
    ("repeating, tracked", |timers, addr| {
        timers.schedule_at_fixed_rate(Target::tracked(addr), ms(5), Note(1));
    }),
    ("repeating, with a window", |timers, addr| {
        timers.schedule_with_fixed_delay(Target::from(addr).window(1), ms(5), Note(1));
    }),
    ("replaced by its key", |timers, addr| {
        for _ in 0..2 {
            timers.timer(Target::tracked(addr), TimerOptions::new().key(1)).schedule(ms(1), Note(1));
        }
    }),
    ("cancelled", |timers, addr| {
        let id = timers.schedule_after(Target::tracked(addr), Duration::ZERO, Note(1));
        timers.cancel(id);
    }),
];

/// Lets time pass with each kind of timer, alone and with a burst of it, and checks that no settle has given up.
async fn never_waits_in_vain(world: &World, advance: impl AsyncFn(Duration)) {
    let before = given_up_settling();
    let timers = &world.timers;
    for (kind, schedule) in TARGETS {
        for how_many in [1, 3] {
            let (addr, _log) = world.probe::<u32>();
            (0..how_many).for_each(|_| schedule(timers, &addr));
            advance(ms(20)).await;
            drop(addr);
            advance(ms(20)).await;
            assert_eq!(given_up_settling(), before, "{kind}, {how_many}");
        }
    }
    let (addr, _log) = world.probe::<u32>();
    run(&addr, |_, ctx| {
        ctx.schedule_after(ms(1), Note(1));
        ctx.run_after(ms(1), |_, _| ());
        ctx.run_every(ms(5), |_, _| ());
    })
    .await;
    advance(ms(20)).await;
    assert_eq!(given_up_settling(), before, "own messages and closures");
    let mut batch = ScheduleBatch::with_capacity(300);
    for name in 0..300 {
        batch.after(&addr, ms(1), Note(name));
    }
    timers.addr().do_send(batch);
    advance(ms(20)).await;
    assert_eq!(given_up_settling(), before, "a batch");
    schedule(timers, Target::tracked(&addr));
    timers.addr().do_send(Drain::within(ms(10)));
    advance(ms(20)).await;
    assert_eq!(given_up_settling(), before, "a drain");
}

#[test]
fn a_manual_clock_never_waits_in_vain() {
    support::in_real_time(async {
        let world = World::manual(TimerActor::builder());
        let clock = world.clock().hands.clone();
        never_waits_in_vain(&world, async |by| clock.advance(by).await).await;
    });
}

#[test]
fn a_paused_clock_never_waits_in_vain() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        never_waits_in_vain(&world, testing::advance).await;
    });
}
