//! The subjects, each peer used as its own documentation recommends: see `docs/internals/benchmarking.md`.
//!
//! `structures` and `schemes` are bare; `keepers` work inside an actor, the `owner`; `messages` come from another arbiter; the
//! others have threads or programs of their own.

pub(crate) mod do_send;
pub(crate) mod external;
pub(crate) mod hash_wheel;
pub(crate) mod keepers;
pub(crate) mod messages;
pub(crate) mod owner;
pub(crate) mod schemes;
pub(crate) mod structures;
pub(crate) mod tokio_workers;
