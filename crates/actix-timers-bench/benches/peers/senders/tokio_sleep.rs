//! tokio's `sleep_until`: a task per message.

use std::rc::Rc;

use actix::{Addr, Context};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::Sender;
use super::messages::{Due, Receiver};

pub(crate) struct Sleeps {
    /// Shared, because clones of an address would cost more than the sleep.
    receivers: Rc<[Addr<Receiver>]>,
}

impl Sender for Sleeps {
    type Handle = JoinHandle<()>;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        Self { receivers: receivers.into() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> JoinHandle<()> {
        let receivers = Rc::clone(&self.receivers);
        actix::spawn(async move {
            sleep_until(Instant::from_std(due.deadline)).await;
            receivers[due.receiver as usize].do_send(due);
        })
    }

    fn cancel(&self, _: &mut Context<Receiver>, task: JoinHandle<()>) {
        assert!(!task.is_finished());
        task.abort();
    }
}
