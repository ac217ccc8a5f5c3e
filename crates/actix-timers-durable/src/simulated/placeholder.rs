//! A placeholder where the simulation is not compiled, so that a run of all tests shows that it is left out.

#[test]
#[ignore = "needs RUSTFLAGS=\"--cfg actix_timers_simulation\": see docs/internals/architecture.md"]
fn durable_timers_keep_their_promises_in_all_interleavings() {
    panic!(
        "not compiled: RUSTFLAGS=\"--cfg actix_timers_simulation\" cargo test -p actix-timers-durable --lib simulated"
    );
}
