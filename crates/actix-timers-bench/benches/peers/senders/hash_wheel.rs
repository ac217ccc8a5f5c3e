//! hierarchical_hash_wheel_timer: a wheel with its own thread, which runs closures.

use std::cell::RefCell;
use std::sync::Arc;

use actix::{Addr, Context};
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};
use uuid::Uuid;

use super::Sender;
use super::messages::{Due, Receiver};

pub(crate) struct HashWheel {
    timer: RefCell<TimerRef<Uuid, OneShotClosureState<Uuid>, PeriodicClosureState<Uuid>>>,
    receivers: Arc<[Addr<Receiver>]>,
}

impl Sender for HashWheel {
    type Handle = Uuid;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let wheel = TimerWithThread::for_uuid_closures();
        let timer = RefCell::new(wheel.timer_ref());
        // Its thread runs until the process ends, and panics if all handles are dropped.
        std::mem::forget(wheel);
        Self { timer, receivers: receivers.into() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> Uuid {
        let id = Uuid::new_v4();
        let receivers = Arc::clone(&self.receivers);
        let action = move |_| receivers[due.receiver as usize].do_send(due);
        self.timer.borrow_mut().schedule_action_once(id, due.delay(), action);
        id
    }

    fn cancel(&self, _: &mut Context<Receiver>, id: Uuid) {
        self.timer.borrow_mut().cancel(&id);
    }
}
