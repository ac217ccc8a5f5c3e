//! A service with durable timers is killed at any moment, while it starts and recovers, too: its reports before hold in
//! later lives.

use crate::book::Book;
use crate::shop::{CUSTOMERS, serving};
use crate::talking::Talking;
use schemes::random::Random;

fn promises_are_kept(stores: u64, kills: u64) {
    let mut random = Random::new(u64::from(std::process::id()));
    for _ in 0..stores {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let mut book = Book::default();
        for kill in 0..kills {
            let talking = Talking::start(serving(&path, (1 + kill) * 1_000_000 * CUSTOMERS));
            let mut said = talking.listen(&mut random);
            said.extend(talking.kill());
            book.read(&said, true);
            book.compare(&path);
        }
        book.close(&path);
    }
}

#[test]
fn promises_are_kept_over_kills_at_random_moments() {
    promises_are_kept(1, 5);
}

#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn promises_are_kept_over_many_kills_at_random_moments() {
    promises_are_kept(4, 8);
}
