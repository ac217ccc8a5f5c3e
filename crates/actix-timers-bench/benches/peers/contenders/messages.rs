//! By messages from another arbiter: `ScheduleAfter`, `ScheduleBatch` and `Cancel`, to a timer actor on its own
//! arbiter.

use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{Cancel, GetSnapshot, ScheduleAfter, ScheduleBatch, Target, TimerActor, TimerId, Timers};

use crate::contenders::do_send::Counter;
use crate::contenders::owner::Note;
use crate::rounds::Life;
use bench::random::Random;

/// The size of the message through the mailbox, for a floor of the same size.
pub(crate) const SCHEDULE_BYTES: usize = size_of::<ScheduleAfter<Note>>();
pub(crate) const CANCEL_BYTES: usize = size_of::<Cancel>();

/// Timers per message.
const BATCH: usize = 256;

/// One message per timer, without a reply; other timers are cancelled.
pub(crate) fn live(life: &mut Life, size: usize) {
    let started = in_a_system(size, async |stage: &Stage| {
        let mut random = Random::new(1);
        let began = Instant::now();
        for n in 0..size as u64 {
            stage.addr().do_send(ScheduleAfter::new(&stage.target, random.delay(), Note([n; 4])));
        }
        stage.accepted(size).await;
        began.elapsed()
    });
    life.keep("start", size, started);
    let stopped = in_a_system(size, async |stage: &Stage| {
        let ids = stage.schedule_in_batches(size).await.1;
        stage.stop(ids).await
    });
    life.keep("stop", size, stopped);
}

/// One message per timer; its id is taken from the request before it is sent.
pub(crate) fn live_with_ids(life: &mut Life, size: usize) {
    let (started, stopped) = in_a_system(size, async |stage: &Stage| {
        let mut random = Random::new(1);
        let mut ids = Vec::with_capacity(size);
        let began = Instant::now();
        for n in 0..size as u64 {
            let request = ScheduleAfter::new(&stage.target, random.delay(), Note([n; 4]));
            ids.push(request.id());
            stage.addr().do_send(request);
        }
        stage.accepted(size).await;
        (began.elapsed(), stage.stop(ids).await)
    });
    life.keep("start", size, started);
    life.keep("stop", size, stopped);
}

/// One message for 256 timers, with their ids in the reply.
pub(crate) fn live_in_batches(life: &mut Life, size: usize) {
    let (started, stopped) = in_a_system(size, async |stage: &Stage| {
        let (started, ids) = stage.schedule_in_batches(size).await;
        (started, stage.stop(ids).await)
    });
    life.keep("start", size, started);
    life.keep("stop", size, stopped);
}

type Answer = Result<<ScheduleBatch<Note> as Message>::Result, MailboxError>;

struct Stage {
    timers: Timers,
    target: Target<Note>,
}

impl Stage {
    fn addr(&self) -> &Addr<TimerActor> {
        self.timers.addr()
    }

    /// Waits until all earlier messages are handled: the mailbox is first in, first out.
    async fn accepted(&self, size: usize) {
        let counters = self.addr().send(GetSnapshot).await.unwrap().counters;
        assert_eq!(counters.accepted, size as u64);
    }

    async fn schedule_in_batches(&self, size: usize) -> (Duration, Vec<TimerId>) {
        let mut random = Random::new(1);
        let mut ids = Vec::with_capacity(size);
        let mut keep = |answer: Answer| ids.extend(answer.unwrap().into_iter().map(Result::unwrap));
        // A batch is built while the previous one is processed.
        let mut under_way = None;
        let began = Instant::now();
        for first in (0..size).step_by(BATCH) {
            let mut batch = ScheduleBatch::with_capacity(BATCH);
            for n in first..size.min(first + BATCH) {
                batch.after(self.target.clone(), random.delay(), Note([n as u64; 4]));
            }
            if let Some(earlier) = under_way.replace(self.addr().send(batch)) {
                keep(earlier.await);
            }
        }
        if let Some(last) = under_way {
            keep(last.await);
        }
        let took = began.elapsed();
        self.accepted(size).await;
        (took, ids)
    }

    /// Cancels all in shuffled order.
    async fn stop(&self, mut ids: Vec<TimerId>) -> Duration {
        Random::new(2).shuffle(&mut ids);
        let began = Instant::now();
        for id in &ids {
            self.addr().do_send(Cancel(*id));
        }
        let counters = self.addr().send(GetSnapshot).await.unwrap().counters;
        let took = began.elapsed();
        assert_eq!(counters.pending, 0);
        assert!(counters.delivered <= ids.len() as u64 / 50, "hardly any was due so soon: {counters:?}");
        took
    }
}

fn in_a_system<R>(size: usize, life: impl AsyncFnOnce(&Stage) -> R) -> R {
    System::new().block_on(async {
        let arbiter = Arbiter::new();
        let timers = TimerActor::builder().capacity(size).start_on(&arbiter.handle()).unwrap();
        let recipient = Counter::default().start();
        let stage = Stage { timers, target: Target::from(&recipient) };
        stage.accepted(0).await;
        let result = life(&stage).await;
        arbiter.stop();
        arbiter.join().unwrap();
        result
    })
}
