//! The load: timeouts that the reply mostly cancels, retries, work for others, reminders near and far.

use std::collections::VecDeque;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{MailboxPolicy, Target, TimerId, TimerOptions, Timers};

use crate::clerk::{Clerk, Pause, Ship, Show};

/// The pause between lots of orders.
const LOT_EVERY: Duration = Duration::from_millis(20);
const ORDERS_IN_A_LOT: u64 = 40;
/// One order in this many is not answered in time.
const UNANSWERED: u64 = 50;
const TIMEOUT: Duration = Duration::from_secs(2);
/// One answer in this many is followed by work for the warehouse, and one by a new price on the board.
const SHIPPED: u64 = 8;
const SHOWN: u64 = 10;
/// One order in this many schedules a reminder.
const REMINDED: u64 = 10;
const REMINDERS: [Duration; 4] = [
    Duration::from_secs(20),
    Duration::from_secs(10 * 60),
    Duration::from_secs(6 * 3600),
    Duration::from_secs(7 * 24 * 3600),
];
/// The maximum number of customers with a reminder in hours or days; beyond it the first have paid.
const DEBTORS: usize = 20_000;

/// An answer to an order; it cancels the order's timeout.
#[derive(Message)]
#[rtype(result = "()")]
struct Answer {
    timeout: TimerId,
}

#[derive(Message)]
#[rtype(result = "()")]
struct NotAnswered {
    attempt: u32,
}

#[derive(Message)]
#[rtype(result = "()")]
struct TryAgain {
    attempt: u32,
}

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Remind;

/// A message whose handler blocks the thread, as no handler should.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Block(pub(crate) Duration);

/// A pause for the shop's workers.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Strike(pub(crate) Duration);

pub(crate) struct Shop {
    timers: Timers,
    warehouse: Addr<Clerk>,
    /// Shipments wait in order until the warehouse can take them.
    shipments: Target<Ship>,
    board: Addr<Clerk>,
    /// Prices that the board cannot take are dropped.
    prices: Target<Show>,
    debtors: VecDeque<TimerId>,
    orders: u64,
    answers: u64,
    reminded: u64,
}

impl Shop {
    pub(crate) fn open(timers: &Timers) -> Addr<Self> {
        let [warehouse, board] = [(); 2].map(|()| Clerk::default().start());
        let shop = Self {
            timers: timers.clone(),
            shipments: Target::from(&warehouse).mailbox_policy(MailboxPolicy::Wait { window: 64 }),
            prices: Target::from(&board).mailbox_policy(MailboxPolicy::Discard { window: 16 }),
            warehouse,
            board,
            debtors: VecDeque::new(),
            orders: 0,
            answers: 0,
            reminded: 0,
        };
        shop.start()
    }

    /// Requests an answer, with a timeout. The metrics show rejections.
    fn ask(&mut self, attempt: u32, ctx: &mut Context<Self>) {
        let me = ctx.address();
        let timeout = self.timers.schedule_after(&me, TIMEOUT, NotAnswered { attempt });
        self.orders += 1;
        if !self.orders.is_multiple_of(UNANSWERED) {
            let soon = TimerOptions::new().jitter(Duration::from_millis(300));
            self.timers.timer(&me, soon).schedule(Duration::from_millis(5), Answer { timeout });
        }
        if self.orders.is_multiple_of(REMINDED) {
            self.remind(me);
        }
    }

    fn remind(&mut self, customer: impl Into<Target<Remind>>) {
        let kind = (self.orders / REMINDED) as usize % REMINDERS.len();
        let ahead = REMINDERS[kind];
        let reminder = self.timers.timer(customer, TimerOptions::new().jitter(ahead)).schedule(ahead, Remind);
        if kind >= REMINDERS.len() / 2 {
            self.debtors.push_back(reminder);
        }
    }

    /// Postpones the last customer's reminder, and cancels the oldest beyond the limit.
    fn settle(&mut self) {
        if let Some(lucky) = self.debtors.back() {
            let _ = self.timers.reschedule_after(*lucky, Duration::from_secs(24 * 3600));
        }
        while self.debtors.len() > DEBTORS {
            self.debtors.pop_front().map(|paid| self.timers.cancel(paid));
        }
    }

    fn answered(&mut self) {
        let later = || TimerOptions::new().jitter(Duration::from_millis(200));
        self.answers += 1;
        if self.answers.is_multiple_of(SHIPPED) {
            self.timers.timer(self.shipments.clone(), later()).schedule(Duration::from_millis(50), Ship);
        }
        if self.answers.is_multiple_of(SHOWN) {
            self.timers.timer(self.prices.clone(), later()).schedule(Duration::from_millis(50), Show);
        }
    }
}

impl Actor for Shop {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(LOT_EVERY, |shop, ctx| {
            (0..ORDERS_IN_A_LOT).for_each(|_| shop.ask(0, ctx));
            shop.settle();
        });
    }
}

impl Handler<Answer> for Shop {
    type Result = ();

    fn handle(&mut self, answer: Answer, _: &mut Context<Self>) {
        // Too late if the timeout was due already.
        self.timers.cancel(answer.timeout);
        self.answered();
    }
}

impl Handler<NotAnswered> for Shop {
    type Result = ();

    fn handle(&mut self, NotAnswered { attempt }: NotAnswered, ctx: &mut Context<Self>) {
        let pause = Duration::from_millis(500 << attempt.min(6));
        let options = TimerOptions::new().jitter(pause / 2);
        let again = TryAgain { attempt: attempt.saturating_add(1) };
        self.timers.timer(ctx.address(), options).schedule(pause, again);
    }
}

impl Handler<TryAgain> for Shop {
    type Result = ();

    fn handle(&mut self, TryAgain { attempt }: TryAgain, ctx: &mut Context<Self>) {
        self.ask(attempt, ctx);
    }
}

impl Handler<Remind> for Shop {
    type Result = ();

    fn handle(&mut self, _: Remind, _: &mut Context<Self>) {
        self.reminded += 1;
    }
}

impl Handler<Block> for Shop {
    type Result = ();

    fn handle(&mut self, Block(time): Block, _: &mut Context<Self>) {
        std::thread::sleep(time);
    }
}

impl Handler<Strike> for Shop {
    type Result = ();

    fn handle(&mut self, Strike(time): Strike, _: &mut Context<Self>) {
        for clerk in [&self.warehouse, &self.board] {
            clerk.do_send(Pause(time));
        }
    }
}
