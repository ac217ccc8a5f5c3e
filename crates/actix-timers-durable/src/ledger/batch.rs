//! Several new timers in one request: all of them share a commit, and thus its success or failure.

use std::sync::{Arc, Mutex, PoisonError};

use super::request::{Answer, Answered, Scheduled};

/// Maximum number of timers in a request.
pub(crate) const MAX_BATCH: usize = 4096;
/// Maximum bytes of their payload and headers.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// The replies to the parts of a request, until the last one is there.
struct Gathering {
    left: usize,
    scheduled: Vec<Option<Scheduled>>,
    answer: Answer<Vec<Scheduled>>,
}

/// Returns a reply for each of `count` new timers; the last one given sends all of them, in order, to `answer`.
pub(super) fn gather(count: usize, answer: Answer<Vec<Scheduled>>) -> impl Iterator<Item = Answer<Scheduled>> {
    let gathering = Gathering { left: count, scheduled: vec![None; count], answer };
    let gathering = Arc::new(Mutex::new(gathering));
    (0..count).map(move |index| {
        let gathering = Arc::clone(&gathering);
        Answer::to(move |answered| give(&gathering, index, answered))
    })
}

fn give(gathering: &Mutex<Gathering>, index: usize, answered: Answered<Scheduled>) {
    let mut gathering = gathering.lock().unwrap_or_else(PoisonError::into_inner);
    let whole = match answered {
        Ok(scheduled) => {
            gathering.left -= 1;
            gathering.scheduled[index] = Some(scheduled);
            (gathering.left == 0).then(|| Ok(gathering.scheduled.drain(..).flatten().collect()))
        }
        // The others get the same error.
        Err(error) => Some(Err(error)),
    };
    if let Some(whole) = whole {
        let answer = std::mem::replace(&mut gathering.answer, Answer::Nobody);
        drop(gathering);
        answer.give(whole);
    }
}
