//! The example `heartbeat`, run as a user runs it.
#![cfg(feature = "actix")]

#[path = "../examples/heartbeat.rs"]
mod heartbeat;

#[test]
fn the_monitor_reports_who_is_missing_and_who_is_back() {
    assert_eq!(heartbeat::main(), std::process::ExitCode::SUCCESS);
}
