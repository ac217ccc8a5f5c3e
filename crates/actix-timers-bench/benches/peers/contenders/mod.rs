//! The subjects: each peer used as its own documentation recommends.
//!
//! | file | subject |
//! |---|---|
//! | `ours` | `actix-timers`: the bare wheel, through a context, by messages |
//! | `delay_queue` | `delay-queue`: tokio-util's `DelayQueue` |
//! | `nexus` | `nexus-timer`: the crate of that name, bare, with memory that grows and with a fixed capacity |
//! | `quad_heap` | `quad-heap`: a heap with four children a node, bare |
//! | `hash_wheel` | `hash-wheel-timer`: the crate `hierarchical_hash_wheel_timer`, bare and with its thread |
//! | `schemes` | `scheme 1` to `scheme 7`: the classic timer schemes of the tests |
//! | `notify_later` | `notify-later`: actix's own timers |
//! | `tokio_sleep` | `tokio-sleep`: a task for each timer; `pingora-timeout`: the same with Pingora's sleep |
//! | `tokio_workers` | `tokio-workers`: a runtime with threads, with one wheel for all, and with one for each thread |
//! | `do_send` | `do-send`: a message and nothing else, the floor of everything that goes through a mailbox |
//! | `external` | `netty`, `jdk`, `kafka`, `go`, `go-timingwheel`, `erlang`: programs in other languages, where their tools are installed |
//!
//! `structure` is the work of the bare structures. `owner` is the scheduling actor of the subjects that work inside an actor. `run-interval` and `run-later`, actix's
//! own timers of a session, are beside ours in `workloads/sessions/session.rs`.

pub(crate) mod delay_queue;
pub(crate) mod do_send;
pub(crate) mod external;
pub(crate) mod hash_wheel;
pub(crate) mod nexus;
pub(crate) mod notify_later;
pub(crate) mod ours;
pub(crate) mod owner;
pub(crate) mod quad_heap;
pub(crate) mod schemes;
pub(crate) mod structure;
pub(crate) mod tokio_sleep;
pub(crate) mod tokio_workers;
