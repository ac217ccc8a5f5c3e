//! Time in ticks: the hierarchical timing wheel and its parts. Pure: no clock, no I/O, no actors.
//!
//! In reading order:
//!
//! 1. `tick`: integer time, and the rounding that makes every delivery [never early](TickLength).
//! 2. `page` and `slots`: arrays on the heap, and the numbers of their free places. `arena`: storage of entries,
//!    addressed by [keys](Key) that cannot go stale; `slab`: storage of what belongs to them.
//! 3. `list`: first-in first-out lists, which name their members in chunks; buckets are such lists.
//! 4. `entry`: the record of an entry: deadline, bucket, location in the list.
//! 5. `level`: a ring of buckets, and the slot arithmetic.
//! 6. `delay_queue`: the non-empty buckets in the order of their expiration; the only thing that drives time.
//! 7. `wheel`: the [`Wheel`], with the algorithm taught as a worked timeline.
//! 8. `held`: lists of the caller, in which detached entries wait.
//! 9. `snapshot`: counts per level and bucket.
//! 10. `jitter` and `slack`: spreading deadlines, and bringing them together.

mod arena;
mod delay_queue;
mod entry;
mod held;
mod jitter;
mod level;
mod list;
mod page;
mod slab;
mod slack;
mod slots;
mod snapshot;
mod tick;
mod wheel;

pub(crate) use arena::Arena;
pub use arena::Key;
pub(crate) use jitter::jitter;
pub use level::{MAX_WHEEL_SIZE, WheelSize};
#[doc(hidden)]
pub use list::List;
pub(crate) use list::{Chunks, Spot};
pub(crate) use page::boxed;
pub(crate) use slab::Slab;
pub(crate) use slack::coalesce;
pub use snapshot::{BucketSnapshot, LevelSnapshot, LevelStats, WheelSnapshot};
pub(crate) use tick::duration_of;
pub use tick::{MAX_TICK, MAX_TICK_LENGTH, MIN_TICK_LENGTH, Tick, TickLength, TimingError};
pub use wheel::{Advance, Expired, Wheel};
