//! For companion crates: what they need of timer actors beyond the API for applications.
//!
//! Applications need nothing of it, and it may change with each minor version. Its users are `actix-timers-durable` and
//! `actix-timers-inspector`, which are released together with this crate.
//!
//! | for | items |
//! |---|---|
//! | timers of a crate's own, which applications neither see nor reach | [`InternalTimers`], [`ExternalWork`], [`builder_on_clock_of`] |
//! | metrics that belong to the page of a [`scrape`](crate::scrape) | [`Publisher`], [`register_publisher`], [`PublishPass`], [`try_publish`], [`PUBLISH_EVERY`], [`describe`], [`Tally`], [`Level`] |
//! | looks at a whole timer actor in steps that hold its lock for microseconds | [`Survey`], [`Outline`], [`TimerWalk`], [`Listing`], [`TIMERS_OF_A_BUCKET`], [`ShortId`] |
//! | the same answers as the core's | [`next_on_grid`], [`unguessable`], [`Shown`], `LogLimit` (feature `tracing`) |

mod internal_timers;
mod survey;

pub use self::internal_timers::{ExternalWork, InternalTimers, builder_on_clock_of};
pub use self::survey::Survey;
pub use crate::actor::id::ShortId;
pub use crate::actor::secret::unguessable;
pub use crate::actor::service::{Listing, Outline, TIMERS_OF_A_BUCKET, TimerWalk};
pub use crate::engine::next_on_grid;
pub use crate::metrics::catalogue::describe;
pub use crate::metrics::gate::{Pass as PublishPass, try_enter as try_publish};
pub use crate::metrics::meters::PUBLISH_EVERY;
pub use crate::metrics::publishers::{Publisher, register_publisher};
pub use crate::metrics::tally::{Level, Tally};
pub use crate::shown::Shown;

#[cfg(feature = "tracing")]
pub use crate::actor::trace::Limit as LogLimit;
