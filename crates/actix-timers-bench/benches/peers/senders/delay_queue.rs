//! tokio-util's `DelayQueue`: a task polls it, and sends expired messages with `do_send`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use actix::{Addr, Context};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::Sender;
use super::messages::{Due, Receiver};

pub(crate) struct Queue(Rc<RefCell<DelayQueue<Due>>>);

impl Queue {
    pub(crate) fn insert(&self, due: Due) -> Key {
        self.0.borrow_mut().insert_at(due, Instant::from_std(due.deadline))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Sender for Queue {
    type Handle = Key;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let queue = Rc::new(RefCell::new(DelayQueue::<Due>::new()));
        let polled = Rc::clone(&queue);
        actix::spawn(async move {
            loop {
                // An empty queue is at its end for now, and wakes the task at the next insertion.
                let expired = poll_fn(|cx| match polled.borrow_mut().poll_expired(cx) {
                    Poll::Ready(Some(expired)) => Poll::Ready(expired),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                });
                let due = expired.await.into_inner();
                receivers[due.receiver as usize].do_send(due);
            }
        });
        Self(queue)
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> Key {
        self.insert(due)
    }

    fn cancel(&self, _: &mut Context<Receiver>, key: Key) {
        self.0.borrow_mut().remove(&key);
    }
}
