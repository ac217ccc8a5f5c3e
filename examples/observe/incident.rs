//! What can go wrong, done on purpose: to see what it looks like on the dashboards, and which alerts fire.

use std::fmt;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, Timers};
use actix_web::rt::time::{interval, sleep};

use crate::clerk::{Clerk, Ship};
use crate::shop::{Block, Remind, Shop, Strike};

const CALM: Duration = Duration::from_secs(60);
/// Long enough for alerts that wait for five minutes.
const LASTS: Duration = Duration::from_secs(6 * 60);
const STEP: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incident {
    StuckRecipient,
    StoppedRecipient,
    BlockedThread,
    Burst,
    Overload,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.story())
    }
}

impl Incident {
    pub(crate) const ALL: [Self; 5] =
        [Self::StuckRecipient, Self::StoppedRecipient, Self::BlockedThread, Self::Burst, Self::Overload];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::StuckRecipient => "stuck-recipient",
            Self::StoppedRecipient => "stopped-recipient",
            Self::BlockedThread => "blocked-thread",
            Self::Burst => "burst",
            Self::Overload => "overload",
        }
    }

    pub(crate) const fn story(self) -> &'static str {
        match self {
            Self::StuckRecipient => "two actors take no messages: those for one wait, those for the other are dropped",
            Self::StoppedRecipient => "actors end before their messages come",
            Self::BlockedThread => "a handler blocks the thread of the timer actor, half of the time",
            Self::Burst => "very many timers fall due at one moment",
            Self::Overload => "more timers than there is room for",
        }
    }

    pub(crate) async fn again_and_again(self, timers: Timers, shop: Addr<Shop>) {
        loop {
            sleep(CALM).await;
            self.happen(&timers, &shop).await;
        }
    }

    pub(crate) async fn happen(self, timers: &Timers, shop: &Addr<Shop>) {
        self.begin(timers, shop);
        let mut steps = interval(STEP);
        for _ in 0..LASTS.as_millis() / STEP.as_millis() {
            steps.tick().await;
            self.go_on(timers, shop);
        }
    }

    /// What is done once.
    fn begin(self, timers: &Timers, shop: &Addr<Shop>) {
        match self {
            Self::StuckRecipient => shop.do_send(Strike(LASTS)),
            Self::Burst => remind(150_000, CALM, timers, shop),
            Self::StoppedRecipient | Self::BlockedThread | Self::Overload => {}
        }
    }

    /// What is done at every step.
    fn go_on(self, timers: &Timers, shop: &Addr<Shop>) {
        match self {
            Self::StoppedRecipient => {
                let clerk = Clerk::default().start();
                let _ = timers.schedule_after(&clerk, STEP, Ship);
            }
            Self::BlockedThread => shop.do_send(Block(STEP / 2)),
            Self::Overload => remind(4_000, LASTS, timers, shop),
            Self::StuckRecipient | Self::Burst => {}
        }
    }
}

/// Reminders for the same moment. What is refused shows in the metrics.
fn remind(number: u32, ahead: Duration, timers: &Timers, shop: &Addr<Shop>) {
    let customer: Target<Remind> = shop.into();
    for _ in 0..number {
        let _ = timers.schedule_after(customer.clone(), ahead, Remind);
    }
}
