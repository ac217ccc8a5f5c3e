//! Tests with a process of their own: for a global recorder or subscriber, a panic hook, or counts of the process's files.

use std::process::Command;

/// Set in the child: the test that it runs.
const TEST: &str = "ACTIX_TIMERS_OWN_PROCESS";

/// Runs the body of a test in a process in which no other test runs: this test binary, started again for this test alone. If
/// it fails there, it fails here, with its output.
///
/// `name` is the path of the test inside its crate, as `--exact` takes it; [`in_own_process!`] knows it.
///
/// # Panics
/// If the test fails, or is not found.
pub fn run(name: &str, body: impl FnOnce()) {
    if std::env::var(TEST).is_ok_and(|test| test == name) {
        return body();
    }
    let program = std::env::current_exe().expect("the path of this test binary");
    let child = Command::new(program).args(["--exact", name, "--nocapture"]).env(TEST, name).output();
    let child = child.expect("this test binary starts");
    let output = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    // A test that is not found is no failure to the harness.
    let ran = output.contains("test result: ok. 1 passed");
    assert!(child.status.success() && ran, "in a process of its own:\n{output}");
}

/// [`run`] for the test with this name, in the module where this stands.
#[macro_export]
macro_rules! in_own_process {
    ($test:ident, $body:expr) => {{
        let path = concat!(module_path!(), "::", stringify!($test));
        $crate::own_process::run(path.split_once("::").map_or(path, |(_, inside)| inside), $body)
    }};
}
