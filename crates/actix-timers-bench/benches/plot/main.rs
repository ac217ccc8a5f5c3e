//! Draws the pictures of `docs/guide/benchmarks.md`, and writes its figures: see [`bench::plot`].

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::start_at_the_root();
    bench::plot::main()
}
