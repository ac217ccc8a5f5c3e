//! New York's departures of July 2013, replayed by delayed messages: `cargo run --release --example departures`.

use std::process::ExitCode;

fn main() -> ExitCode {
    departures::main()
}
