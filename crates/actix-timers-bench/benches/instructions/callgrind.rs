//! Counts the instructions of one function of this program with valgrind's callgrind.

use std::process::Command;

/// Runs `--work name` of this program, and returns the instructions between entering and leaving `function`.
pub(crate) fn instructions(name: &str, function: &str) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let counts = std::env::temp_dir().join(format!("actix-timers-instructions-{}", std::process::id()));
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        // The wildcards match the rest of the symbol, which depends on the compiler.
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(program)
        .args(["--work", name])
        .output()
        .map_err(|error| format!("valgrind: {error}; on Debian: apt-get install valgrind"))?;
    if !output.status.success() {
        return Err(format!("{name} failed under valgrind:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let _ = std::fs::remove_file(&counts);
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.split(' ').next()?.parse().ok());
    match total {
        None => Err(format!("{name}: callgrind wrote no total")),
        Some(0) => Err(format!("{name}: nothing was collected, `{function}` is not in the program")),
        Some(total) => Ok(total),
    }
}
