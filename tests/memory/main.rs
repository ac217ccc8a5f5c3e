//! Memory: allocations counted by an allocator of this binary, and messages on small stacks.
#![allow(clippy::unwrap_used, clippy::expect_used, unsafe_code)]

mod allocations;
mod large_messages;
