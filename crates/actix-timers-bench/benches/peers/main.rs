//! Ours and the peers, side by side in one run.
//!
//! `docs/internals/benchmarking.md` has the commands and the method; `--check` is one short pass that verifies the work.
//!
//! The output is a table with median, min, max and the ratio of ours to the peer, below 1 where ours is better. The last
//! lines name the peers in other languages that are not installed.
//!
//! # Reading order
//!
//! 1. `workloads`: the measurements, one file each; `mod.rs` lists them.
//! 2. `contenders`: the subjects, one file each.
//! 3. `rounds`: nanoseconds per operation; `clock`: percentiles of single operations.
//! 4. `child`: lateness, sessions, idling and memory, in processes of their own; `senders`: the subjects there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arguments;
mod child;
mod clock;
mod contenders;
mod heap;
mod rounds;
mod senders;
mod workloads;

use std::io;

use arguments::Arguments;
use bench::rows::Rows;
use contenders::{external, tokio_workers};

fn main() -> io::Result<()> {
    child::answer(workloads::in_children());
    let arguments: Arguments = bench::arguments::parse();
    let mut rows = Rows::default();
    for (names, run) in workloads::ALL {
        if arguments.wants_any(names) {
            run(&arguments, &mut rows);
        }
    }
    rows.print_table();
    for line in external::left_out(&arguments).into_iter().chain(tokio_workers::left_out(&arguments)) {
        println!("\n{line}");
    }
    rows.write_json(arguments.json.as_deref())
}
