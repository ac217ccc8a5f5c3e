//! Incidents on purpose, to show their effect on dashboards and alerts.

use std::fmt;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, Timers};
#[cfg(feature = "durable")]
use actix_timers_durable::DurableTimers;
use actix_web::rt::time::{interval, sleep};

use crate::clerk::{Clerk, Ship};
#[cfg(feature = "durable")]
use crate::post;
use crate::shop::{Block, Remind, Shop, Strike};

const CALM: Duration = Duration::from_secs(60);
/// The duration of an incident, long enough for alerts that wait for five minutes.
const LASTS: Duration = Duration::from_secs(6 * 60);
const STEP: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incident {
    StuckRecipient,
    StoppedRecipient,
    BlockedThread,
    Burst,
    Overload,
    #[cfg(feature = "durable")]
    WrongAddress,
}

/// The actors and timers that an incident acts on.
pub(crate) struct Scene {
    pub(crate) timers: Timers,
    pub(crate) shop: Addr<Shop>,
    /// The durable timers, if there is a store.
    #[cfg(feature = "durable")]
    pub(crate) letters: Option<DurableTimers>,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.story())
    }
}

impl Incident {
    pub(crate) const ALL: &[Self] = &[
        Self::StuckRecipient,
        Self::StoppedRecipient,
        Self::BlockedThread,
        Self::Burst,
        Self::Overload,
        #[cfg(feature = "durable")]
        Self::WrongAddress,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::StuckRecipient => "stuck-recipient",
            Self::StoppedRecipient => "stopped-recipient",
            Self::BlockedThread => "blocked-thread",
            Self::Burst => "burst",
            Self::Overload => "overload",
            #[cfg(feature = "durable")]
            Self::WrongAddress => "wrong-address",
        }
    }

    pub(crate) const fn story(self) -> &'static str {
        match self {
            Self::StuckRecipient => "two actors take no messages: one recipient's wait, the other's are dropped",
            Self::StoppedRecipient => "actors end before their messages are due",
            Self::BlockedThread => "a handler blocks the thread of the timer actor half of the time",
            Self::Burst => "many timers fall due at one moment",
            Self::Overload => "more timers than the capacity",
            #[cfg(feature = "durable")]
            Self::WrongAddress => "undeliverable durable messages become dead letters (needs --store)",
        }
    }

    pub(crate) const fn needs_store(self) -> bool {
        match self {
            #[cfg(feature = "durable")]
            Self::WrongAddress => true,
            _ => false,
        }
    }

    pub(crate) async fn again_and_again(self, scene: Scene) {
        loop {
            sleep(CALM).await;
            self.happen(&scene).await;
        }
    }

    pub(crate) async fn happen(self, scene: &Scene) {
        self.begin(scene);
        let mut steps = interval(STEP);
        for _ in 0..LASTS.as_millis() / STEP.as_millis() {
            steps.tick().await;
            self.go_on(scene);
        }
    }

    /// Takes the incident's action at its beginning.
    fn begin(self, scene: &Scene) {
        match self {
            Self::StuckRecipient => scene.shop.do_send(Strike(LASTS)),
            Self::Burst => remind(150_000, CALM, scene),
            _ => {}
        }
    }

    /// Takes the incident's action of each step.
    fn go_on(self, scene: &Scene) {
        match self {
            Self::StoppedRecipient => {
                let clerk = Clerk::default().start();
                scene.timers.schedule_after(&clerk, STEP, Ship);
            }
            Self::BlockedThread => scene.shop.do_send(Block(STEP / 2)),
            Self::Overload => remind(4_000, LASTS, scene),
            #[cfg(feature = "durable")]
            Self::WrongAddress => scene.letters.iter().for_each(post::hand_in_with_a_wrong_address),
            Self::StuckRecipient | Self::Burst => {}
        }
    }
}

/// Schedules reminders for one moment. The metrics show rejections.
fn remind(number: u32, ahead: Duration, scene: &Scene) {
    let customer: Target<Remind> = (&scene.shop).into();
    for _ in 0..number {
        scene.timers.schedule_after(customer.clone(), ahead, Remind);
    }
}
