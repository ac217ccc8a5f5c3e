//! Requests that wait: customers who poll for the next price of an article, and leave after a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::Timers;
use actix_timers_purgatory::{Keys, Purgatory, StartError};

/// The pause between polls, and between prices.
const EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(1);
const ARTICLES: usize = 100;
/// A price is for one of the first of them; polls for the others expire.
const SOLD: usize = 95;

pub(crate) struct Polls {
    polls: Purgatory<usize>,
    /// The number of prices that each article has had.
    prices: Arc<[AtomicU64]>,
    rounds: usize,
}

impl Polls {
    pub(crate) fn open(timers: &Timers) -> Result<Addr<Self>, StartError> {
        let polls = Purgatory::builder().name("polls").timers(timers).start()?;
        let prices = (0..ARTICLES).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { polls, prices, rounds: 0 }.start())
    }

    /// Polls for an article, or for the next one, too.
    fn poll(&mut self, ctx: &mut Context<Self>) {
        let article = self.rounds * 7 % ARTICLES;
        let keys = Keys::from_iter(article..ARTICLES.min(article + 1 + self.rounds % 2));
        let prices = Arc::clone(&self.prices);
        let known = prices[article].load(Ordering::Relaxed);
        let is_new = move || (prices[article].load(Ordering::Relaxed) > known).then_some(());
        ctx.spawn(self.polls.wait(keys, PATIENCE, is_new).into_actor(self).map(|_, _, _| ()));
    }

    fn set_price(&mut self) {
        let article = self.rounds * 11 % SOLD;
        self.prices[article].fetch_add(1, Ordering::Relaxed);
        self.polls.check(&article);
    }
}

impl Actor for Polls {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(EVERY, |polls, ctx| {
            polls.rounds += 1;
            polls.poll(ctx);
            polls.set_price();
        });
    }
}
