//! Time in ticks: the hierarchical timing wheel and what it is made of. Pure: no clock, no I/O, no actors.
//!
//! In reading order:
//!
//! 1. `tick`: integer time, and the rounding that makes every delivery [never early](TickLength).
//! 2. `arena`: where entries live, under [keys](Key) that cannot go stale.
//! 3. `list`: buckets, which are first-in first-out lists that name their members in chunks.
//! 4. `entry`: what is kept for each entry: deadline, bucket, place in the list.
//! 5. `level`: a ring of buckets, and the slot arithmetic.
//! 6. `delay_queue`: the non-empty buckets in the order of their expiration; the only thing that drives time.
//! 7. `wheel`: the [`Wheel`], with the algorithm taught as a worked timeline.
//! 8. `snapshot`: counts per level and bucket.
//! 9. `jitter` and `slack`: deadlines that are spread, and deadlines that are brought together.

mod arena;
mod delay_queue;
mod entry;
mod jitter;
mod level;
mod list;
mod slack;
mod snapshot;
mod tick;
mod wheel;

pub use arena::{Arena, Key};
pub use jitter::jitter;
pub use level::{MAX_WHEEL_SIZE, WheelSize};
pub use list::List;
pub(crate) use list::{Chunks, Spot};
pub use slack::coalesce;
pub use snapshot::{BucketSnapshot, LevelSnapshot, LevelStats, WheelSnapshot};
pub use tick::{MAX_TICK, MAX_TICK_LENGTH, MIN_TICK_LENGTH, Tick, TickLength, TimingError};
pub use wheel::{Advance, Expired, Step, Wheel};
