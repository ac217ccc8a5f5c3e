//! The resources used by this process: CPU time, context switches, memory.
//!
//! Read from the kernel's clocks and `/proc`, so these figures need Linux.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads, including ended ones.
pub fn cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of this thread.
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// The usage of this process without the measuring main thread.
#[derive(Clone, Copy, Default)]
pub struct OtherThreads {
    pub cpu: Duration,
    /// Voluntary and involuntary ones.
    pub context_switches: u64,
}

impl OtherThreads {
    /// Returns the usage of all live threads but the main one.
    pub fn now() -> Self {
        let main = std::process::id().to_string();
        let mut usage = Self::default();
        for thread in fs::read_dir("/proc/self/task").expect("/proc is there").flatten() {
            if thread.file_name().to_string_lossy() != main.as_str() {
                let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                usage.cpu += Duration::from_nanos(field(&read("schedstat"), ""));
                let status = read("status");
                usage.context_switches +=
                    field(&status, "voluntary_ctxt_switches:") + field(&status, "nonvoluntary_ctxt_switches:");
            }
        }
        usage
    }
}

/// Returns the memory that is in RAM now.
pub fn resident_bytes() -> u64 {
    const KIB: u64 = 1024;
    let status = fs::read_to_string("/proc/self/status").expect("/proc is there");
    field(&status, "VmRSS:") * KIB
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the number after a name in a status file.
fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.split_whitespace().next());
    value.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number for {name} in /proc"))
}
