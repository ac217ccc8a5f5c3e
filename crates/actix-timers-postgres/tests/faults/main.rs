//! Faults of nodes, their connections, their clocks and their server, each with the outside checker: the
//! [lines](lines) of all nodes ([book]) and the nodes in the tables ([samples]).
//!
//! Each test makes one round. A full run makes ten in a row:
//!
//! ```text
//! ACTIX_TIMERS_FAULT_ROUNDS=10 crates/actix-timers-postgres/tests/server \
//!     cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1
//! ```
//!
//! | | fault | module |
//! |--:|---|---|
//! | 1 | SIGKILL at random moments; several die together while others join | `kills` |
//! | 2 | SIGSTOP beyond the lease, also in mid-send | `freezes` |
//! | 3 | connections cut and stalled, one way and both, and between COMMIT and reply | `wires` |
//! | 4 | immediate stop of the server; promotion of a standby that lacks the last seconds | `failovers` |
//! | 5 | wall clocks an hour off | `skew` |
//! | 6 | two nodes release a dead one; one key from several nodes | `kills`; each that has the usual requests |
//! | 7 | no free connection, full disk, pinned snapshot, locked tables | `shortages` |
//! | 8 | drain under load | `drains` |
//! | 9 | a new route and a new message version while old nodes run | `upgrades` |
//! | 10 | a million overdue timers when all nodes start; scenario O-63 | `backlog` |
//! | 11 | the session that writes is gone, and the others live | `partial` |
//! | 12 | users' transactions that lock rows | `users` |
//! | 13 | a distant server, while a node with thousands of timers dies | `latency` |
//! | | scenario O-64 | `scenarios` |
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backlog;
mod book;
mod clocks;
mod cluster;
mod drains;
mod failovers;
mod freezes;
mod kills;
mod latency;
mod lines;
mod node;
mod partial;
mod proxy;
mod samples;
mod scenarios;
mod server;
mod shortages;
mod skew;
mod stalls;
mod upgrades;
mod users;
mod wires;
