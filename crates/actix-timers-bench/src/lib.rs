//! Shared parts of the benches: rows of figures, random delays, the kernel's figures of the process; and the plots of
//! the rows.
#![allow(missing_docs, reason = "internal: for benches")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod numbers;
pub mod plot;
pub mod process;
pub mod quad_heap;
pub mod random;
pub mod record;
pub mod rows;

/// Makes paths on the command line relative to the root of the repository, the user's directory; Cargo starts a bench
/// in the folder of its package.
pub fn start_at_the_root() {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the root of the repository");
}
