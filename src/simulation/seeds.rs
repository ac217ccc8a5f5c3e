//! The seeds of a test, and the report of a failure.
//!
//! | variable | |
//! |---|---|
//! | `ACTIX_TIMERS_SEED` | runs this seed alone, and prints all events |
//! | `ACTIX_TIMERS_SEEDS` | number of seeds, instead of the test's own |
//! | `ACTIX_TIMERS_FIRST_SEED` | first seed, instead of 0 |

/// The number of seeds after which a long run reports its progress.
const PROGRESS: u64 = 100_000;

/// The command that runs the tests of the package under simulation.
const COMMAND: &str = if cfg!(test) {
    "cargo test -p actix-timers --all-features --lib"
} else {
    "RUSTFLAGS=\"--cfg actix_timers_simulation\" cargo test -p actix-timers-durable --lib"
};

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns whether one seed is replayed: then all events are printed.
pub fn is_replay() -> bool {
    static IS_REPLAY: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| variable("ACTIX_TIMERS_SEED").is_some());
    *IS_REPLAY
}

/// Runs the simulation `one` for `count` seeds, and panics with the first seed that fails.
pub fn run(test: &str, count: u64, one: impl Fn(u64) -> Result<(), String>) {
    let (first, count) = match variable("ACTIX_TIMERS_SEED") {
        Some(seed) => (seed, 1),
        None => (variable("ACTIX_TIMERS_FIRST_SEED").unwrap_or(0), variable("ACTIX_TIMERS_SEEDS").unwrap_or(count)),
    };
    let began = std::time::Instant::now();
    for done in 0..count {
        let seed = first + done;
        if let Err(failure) = one(seed) {
            panic!("seed {seed}: {failure}\nreplay: ACTIX_TIMERS_SEED={seed} {COMMAND} {test}");
        }
        if (done + 1) % PROGRESS == 0 {
            println!("{test}: {} seeds from {first}, {} s", done + 1, began.elapsed().as_secs());
        }
    }
}
