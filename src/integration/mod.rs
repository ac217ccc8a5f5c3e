//! Integration of companion crates: access to timer actors beyond the API for applications.
//!
//! Applications do not need it. It may change with each minor version: `actix-timers-durable` and
//! `actix-timers-inspector` use it, and are released together with this crate.
//!
//! | item | reason |
//! |---|---|
//! | [`InternalTimers`] | an application must not see, list, cancel or drain timers of a companion crate |
//! | [`builder_on_clock_of`] | both kinds of timers of a test move with one clock |
//! | [`system_clock_with_wall`] | processes that share a store share its wall clock, also if their machines' clocks are wrong |
//! | [`ExternalWork`] | virtual time waits for work on threads unknown to the core |
//! | [`Publisher`], [`register_publisher`] | a [`scrape`](crate::scrape) updates all metrics of the process |
//! | [`PublishPass`], [`try_publish`], [`PUBLISH_EVERY`] | no publication during a scrape; one rate for all |
//! | [`gauge`], [`counter`], [`histogram`] | the catalogues of all crates are built in one way |
//! | [`describe`], [`Tally`], [`Level`] | series of one name add up in the same way, whichever crate publishes them |
//! | [`Survey`], [`Outline`], [`TimerWalk`], [`Listing`], [`TIMERS_OF_A_BUCKET`] | a survey of a whole wheel holds its lock for microseconds at a time |
//! | [`ShortId`] | it is a part of the bits of a [`TimerId`](crate::TimerId), which are private |
//! | [`next_on_grid`] | one arithmetic for missed ticks |
//! | [`unguessable`] | ids and nonces come from one source of randomness, checked once |
//! | [`Shown`] | external text is escaped in one way in all errors and logs |
//! | [`contain`], [`drop_contained`], [`text_of`] | panics of user code are caught in one way |
//! | [`given_up_settling`] | tests require that virtual time never waits in vain |
//! | `LogLimit` (feature `tracing`) | one rate limit for the warnings of all crates |

mod internal_timers;
mod survey;

pub use self::internal_timers::{InternalTimers, builder_on_clock_of, system_clock_with_wall};
pub use self::survey::{Outline, Survey, TIMERS_OF_A_BUCKET, TimerWalk};
pub use crate::api::settling::given_up_settling;
pub use crate::engine::next_on_grid;
pub use crate::metrics::catalogue::{counter, describe, gauge, histogram};
pub use crate::metrics::gate::{Pass as PublishPass, try_enter as try_publish};
pub use crate::metrics::meters::PUBLISH_EVERY;
pub use crate::metrics::publishers::{Publisher, register_publisher};
pub use crate::metrics::tally::{Level, Tally};
pub use crate::model::contain::{contain, drop_contained, text_of};
pub use crate::model::id::ShortId;
pub use crate::model::secret::unguessable;
pub use crate::model::shown::Shown;
pub use crate::service::query::activity::ExternalWork;
pub use crate::service::query::selection::Listing;

#[cfg(feature = "tracing")]
pub use crate::trace::Limit as LogLimit;
