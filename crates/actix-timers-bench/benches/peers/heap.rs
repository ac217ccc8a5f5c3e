//! The memory of this process. The allocated bytes are from glibc's own statistics: they count the actual size of each
//! block, and cost nothing until they are read.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use malloc_info::info::{SystemType, TotalType};

use bench::process::resident_bytes;

#[derive(Clone, Copy)]
pub(crate) struct Memory {
    allocated: u64,
    resident: u64,
}

impl Memory {
    pub(crate) fn now() -> Self {
        Self { allocated: allocated(), resident: resident_bytes() }
    }

    /// Returns the allocated and the resident bytes, in megabytes.
    pub(crate) fn megabytes(self) -> [f64; 2] {
        [self.allocated, self.resident].map(|bytes| bytes as f64 / 1e6)
    }

    /// Returns the allocated and the resident bytes of each of `count` things that were made since.
    pub(crate) fn each_since(self, before: Self, count: usize) -> [f64; 2] {
        [(self.allocated, before.allocated), (self.resident, before.resident)]
            .map(|(now, before)| now.saturating_sub(before) as f64 / count as f64)
    }
}

/// Returns the bytes in use, in all threads. Small blocks in the caches of threads, some hundred kilobytes at most,
/// count as in use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn allocated() -> u64 {
    let books = malloc_info::malloc_info().expect("statistics of glibc");
    let from_system = books.system.iter().filter(|entry| entry.r#type == SystemType::Current).map(|entry| entry.size);
    let free = |kind: &TotalType| matches!(kind, TotalType::Fast | TotalType::Rest);
    let not_in_use = books.total.iter().filter(|entry| free(&entry.r#type)).map(|entry| entry.size);
    let mapped = books.total.iter().filter(|entry| entry.r#type == TotalType::Mmap).map(|entry| entry.size);
    (from_system.sum::<usize>() + mapped.sum::<usize>() - not_in_use.sum::<usize>()) as u64
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn allocated() -> u64 {
    panic!("the workload `memory` needs Linux with glibc")
}
