#![cfg_attr(not(doctest), doc = include!("others.in"))]
//! The guide for users and operators.
//!
//! | chapter | contents |
//! |---|---|
//! | [features] | every feature, with the function or type that provides it; settings; Cargo features |
//! | [semantics] | the guarantees of timers, numbered, and their limits |
//! | [semantics_fine_print] | their exceptions, rare cases and exact definitions |
//! | [durability] | timers that survive a crash: use, guarantees, failures, files |
//! | [migration] | from actix's own timers or tokio-util's `DelayQueue`: calls, differences, patterns |
//! | [testing] | testing actors in virtual time |
//! | [operations] | metrics, log warnings, runbook for the alerts |
//! | [inspector] | the live page of the wheel and its JSON API |
//! | [scaling] | cost of a timer: one arbiter, one machine, a fleet |
//! | [comparison] | features beside other timers and job schedulers, and the better choice for each case |
//!
//! The chapters are the files in `docs/guide`. [Durability] and [inspector] are pages of their crates, [scaling] and
//! [benchmarks] of the repository alone. This module exists in the documentation only.
// A file links to others by references, such as `[semantics]`, which it defines at its end for readers of the
// repository. `chapters.md` and `others.in` define the same labels for rustdoc; they precede the file, and the first
// definition of a label counts. `tests/layout/links.rs` compares the definitions.

/// Declares chapters: pages with the contents of their files, whose code is tested.
macro_rules! chapters {
    ($($name:ident: $file:literal;)*) => {$(
        #[cfg_attr(not(doctest), doc = include_str!("chapters.md"))]
        #[cfg_attr(not(doctest), doc = include!("others.in"))]
        #[doc = include_str!(concat!("../../docs/guide/", $file))]
        pub mod $name {}
    )*};
}

chapters! {
    features: "features.md";
    semantics: "semantics.md";
    semantics_fine_print: "semantics-fine-print.md";
    migration: "migration.md";
    testing: "testing.md";
    operations: "operations.md";
    comparison: "comparison.md";
}
