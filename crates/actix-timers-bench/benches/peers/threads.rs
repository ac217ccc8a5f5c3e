//! The CPU time and context switches of this process without the measuring main thread, from `/proc`.

use std::fs;

#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) nanoseconds: u64,
    /// Voluntary and involuntary ones.
    pub(crate) context_switches: u64,
}

impl Usage {
    /// Returns the usage of all current threads except the main one.
    pub(crate) fn of_others() -> Self {
        let main = std::process::id().to_string();
        let mut usage = Self::default();
        for thread in fs::read_dir("/proc/self/task").expect("a list of threads").flatten() {
            if thread.file_name().to_string_lossy() != main.as_str() {
                let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                usage.nanoseconds += first_number(&read("schedstat"));
                let status = read("status");
                let switches = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
                usage.context_switches += switches.map(|(_, count)| first_number(count)).sum::<u64>();
            }
        }
        usage
    }

    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
            context_switches: self.context_switches - earlier.context_switches,
        }
    }
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}
