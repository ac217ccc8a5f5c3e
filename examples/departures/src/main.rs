//! The example as a program that Cargo builds for its tests.

fn main() -> std::process::ExitCode {
    departures::main()
}
