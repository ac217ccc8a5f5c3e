//! The message, and the actor that schedules and receives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Context, Handler, Message};

use super::book::Book;

/// The message: 32 bytes.
#[derive(Message, Clone, Copy)]
#[rtype(result = "()")]
pub(crate) struct Due {
    pub(crate) deadline: Instant,
    pub(crate) number: u32,
    /// The index of the receiver.
    pub(crate) receiver: u32,
    /// Padding to the size of an ordinary message.
    _ballast: u64,
}

const _: () = assert!(size_of::<Due>() == 32);

impl Due {
    pub(crate) const fn new(deadline: Instant, number: u32) -> Self {
        Self { deadline, number, receiver: 0, _ballast: 0 }
    }

    pub(crate) const fn to(self, receiver: u32) -> Self {
        Self { receiver, ..self }
    }

    /// Returns the remaining time, for senders that take a delay.
    pub(crate) fn delay(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A closure that runs with the context of a [`Receiver`].
type Plan = Box<dyn FnOnce(&mut Context<Receiver>)>;
type Plans = Rc<RefCell<VecDeque<Plan>>>;

/// Makes a receiver run its next plan: plans stay on their thread, so no message contains one.
#[derive(Message)]
#[rtype(result = "()")]
struct Next;

/// An actor that schedules by its plans and records its deliveries in the book.
pub(crate) struct Receiver {
    plans: Plans,
    book: Option<Rc<RefCell<Book>>>,
}

impl Receiver {
    /// Returns a receiver. Without a book it must get no messages.
    pub(crate) fn new(book: Option<&Rc<RefCell<Book>>>) -> Self {
        Self { plans: Plans::default(), book: book.map(Rc::clone) }
    }
}

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<Due> for Receiver {
    type Result = ();

    fn handle(&mut self, due: Due, _: &mut Context<Self>) {
        let now = Instant::now();
        let book = self.book.as_ref().expect("nothing was to be delivered here");
        book.borrow_mut().enter(due, now);
    }
}

impl Handler<Next> for Receiver {
    type Result = ();

    fn handle(&mut self, _: Next, ctx: &mut Context<Self>) {
        let plan = self.plans.borrow_mut().pop_front();
        plan.into_iter().for_each(|plan| plan(ctx));
    }
}

/// A receiver of this arbiter, and the access to its context.
#[derive(Clone)]
pub(crate) struct Planner {
    pub(crate) addr: Addr<Receiver>,
    plans: Plans,
}

impl Planner {
    pub(crate) fn start(book: Option<&Rc<RefCell<Book>>>) -> Self {
        let receiver = Receiver::new(book);
        Self { plans: Rc::clone(&receiver.plans), addr: receiver.start() }
    }

    /// Runs a closure in a handler of the receiver.
    pub(crate) async fn run<R: 'static>(&self, plan: impl FnOnce(&mut Context<Receiver>) -> R + 'static) -> R {
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        self.plans.borrow_mut().push_back(Box::new(move |ctx| *place.borrow_mut() = Some(plan(ctx))));
        self.addr.send(Next).await.expect("the receiver lives");
        result.take().expect("the plan was done")
    }
}
