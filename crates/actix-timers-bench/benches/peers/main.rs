//! Ours and the peers, side by side in one run.
//!
//! ```text
//! cargo bench --bench peers                                         everything, 10 000 and 100 000 pending
//! cargo bench --bench peers -- --workloads start,stop --sizes 10000 a first look, well under a minute
//! cargo bench --bench peers -- --check                              one short pass that verifies the work
//! cargo bench --bench peers -- --help                               lists the options
//! ```
//!
//! The output is a table with median, min, max and the ratio of ours to the peer, below 1 where ours is better; `--json
//! FILE` also writes the rows to a file. For figures measured in rounds the ratio is taken round by round, since a
//! noisy machine is noisy for both then. Each run verifies that the work was really done.
//!
//! Peers in other languages take part where they are installed, for example by
//! `crates/actix-timers-bench/benches/peers/external/install.sh`. The last lines name the missing peers.
//!
//! # Reading order
//!
//! 1. `workloads`: the measurements, one file each; `mod.rs` lists them.
//! 2. `contenders`: the subjects, one file each.
//! 3. `rounds`: nanoseconds per operation; `clock`: percentiles of single operations.
//! 4. `child`: lateness, sessions, idling and memory, in processes of their own; `senders`: the subjects there.
//! 5. `rows`: comparison and output of the figures.
//! 6. `arguments`, `random`, `process`, `heap`: helpers.
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
