//! The subjects: each peer used as its own documentation recommends.
//!
//! | file | subject |
//! |---|---|
//! | `structures` | bare: `actix-timers`, the wheel; tokio-util's `delay-queue`; `nexus-timer`, with memory that grows and with a fixed capacity; `quad-heap`, with four children a node; `hash-wheel-timer`, the crate `hierarchical_hash_wheel_timer` |
//! | `schemes` | `scheme 1` to `scheme 7`: the classic timer schemes of the tests |
//! | `keepers` | inside an actor: `actix-timers`; `notify-later`, actix's own; `tokio-sleep`, a task for each timer; `pingora-timeout`, the same with Pingora's sleep |
//! | `messages` | `actix-timers` by messages |
//! | `hash_wheel` | `hash-wheel-timer` with its thread |
//! | `tokio_workers` | `tokio-workers`: a runtime with threads, with one wheel for all, and with one for each thread |
//! | `do_send` | `do-send`: a message and nothing else, the floor of everything that goes through a mailbox |
//! | `external` | `netty`, `jdk`, `kafka`, `go`, `go-timingwheel`, `erlang`: programs in other languages, where their tools are installed |
//!
//! `owner` is the scheduling actor of the keepers. `run-interval` and `run-later`, actix's own timers of a session, are beside
//! ours in `workloads/sessions/session.rs`.

pub(crate) mod do_send;
pub(crate) mod external;
pub(crate) mod hash_wheel;
pub(crate) mod keepers;
pub(crate) mod messages;
pub(crate) mod owner;
pub(crate) mod schemes;
pub(crate) mod structures;
pub(crate) mod tokio_workers;
