//! Incidents on purpose, to show their effect on dashboards and alerts.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, Timers};
#[cfg(feature = "durable")]
use actix_timers_durable::DurableTimers;
use actix_web::rt::time::{interval, sleep};
use clap::ValueEnum;

use crate::clerk::{Clerk, Ship};
#[cfg(feature = "durable")]
use crate::post;
use crate::shop::{Block, Remind, Shop, Strike};

const CALM: Duration = Duration::from_secs(60);
/// The duration of an incident, long enough for alerts that wait for five minutes.
const LASTS: Duration = Duration::from_secs(6 * 60);
const STEP: Duration = Duration::from_millis(500);

/// With descriptions for the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Incident {
    /// Two actors take no messages: one recipient's wait, the other's are dropped
    StuckRecipient,
    /// Actors end before their messages are due
    StoppedRecipient,
    /// A handler blocks the thread of the timer actor half of the time
    BlockedThread,
    /// Many timers fall due at one moment
    Burst,
    /// More timers than the capacity
    Overload,
    /// Undeliverable durable messages become dead letters (needs --store)
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

impl Incident {
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
