//! A service with durable timers is killed at any moment, while it starts and recovers, too: its reports before hold in
//! later lives.

use crate::book::Book;
use crate::shop::{CUSTOMERS, finishing, serving};
use crate::talking::Talking;
use schemes::random::Random;

/// One after the other.
const STORES: u64 = 4;
/// Kills of each of them.
const KILLS: u64 = 5;

#[test]
fn promises_are_kept_over_kills_at_random_moments() {
    let mut random = Random::new(u64::from(std::process::id()));
    for _ in 0..STORES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let mut book = Book::default();
        for kill in 0..KILLS {
            let talking = Talking::start(serving(&path, (1 + kill) * 1_000_000 * CUSTOMERS));
            let mut said = talking.listen(&mut random);
            said.extend(talking.kill());
            book.read(&said, true);
            book.compare(&path);
        }
        let last = Talking::start(finishing(&path)).rest();
        assert_eq!(last.iter().rfind(|line| !line.is_empty()).map(String::as_str), Some("finished"), "{last:?}");
        book.read(&last, true);
        book.close(&last);
    }
}
