//! Tests in a process of their own: for a global recorder or subscriber, a panic hook, or counts of open files.

use std::process::Command;

/// The environment variable that names the test to the child process.
const TEST: &str = "ACTIX_TIMERS_OWN_PROCESS";

/// Runs the body of a test in a process without other tests: this test binary, started again for this test alone. If it
/// fails there, it fails here, with its output; otherwise the output is returned here, and `None` there.
///
/// `name` is the path of the test inside its crate, as for `--exact`; [`in_own_process!`] finds it.
///
/// # Panics
/// If the test fails, or is not found.
pub fn run(name: &str, body: impl FnOnce()) -> Option<String> {
    if std::env::var(TEST).is_ok_and(|test| test == name) {
        body();
        return None;
    }
    let program = std::env::current_exe().expect("the path of this test binary");
    let child = Command::new(program).args(["--exact", name, "--nocapture"]).env(TEST, name).output();
    let child = child.expect("this test binary starts");
    let output = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    // The harness does not count a test that is not found as a failure.
    let ran = output.contains("test result: ok. 1 passed");
    assert!(child.status.success() && ran, "in a process of its own:\n{output}");
    Some(output)
}

/// Calls [`run`] for the test with this name in the module of the invocation.
#[macro_export]
macro_rules! in_own_process {
    ($test:ident, $body:expr) => {{
        let path = concat!(module_path!(), "::", stringify!($test));
        $crate::own_process::run(path.split_once("::").map_or(path, |(_, inside)| inside), $body)
    }};
}
