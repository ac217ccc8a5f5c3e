//! Answers on their way to clients that may never read them.
//!
//! A server copies each part of an answer to the buffer of its connection as soon as there is room, and an answer in one
//! part whole. So answers are sent in parts, and the rest stays here, up to a limit for all clients together. Room for a
//! new answer is made by ending those whose clients have not read for the longest time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

/// Maximum number of bytes that are kept for all clients together; a larger answer is kept alone.
const MAX_BYTES: usize = 8 << 20;

/// Number of bytes in a part.
const PART: usize = 16 << 10;

/// The answers of an inspector.
#[derive(Debug, Default)]
pub(super) struct UnreadAnswers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The longest unread comes first: each part read gives an answer a new number.
    answers: BTreeMap<u64, Unread>,
    last_number: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Unread {
    rest: Bytes,
    /// All that it keeps in memory, also the parts that were sent.
    kept: usize,
}

impl State {
    fn insert(&mut self, answer: Unread) -> u64 {
        self.bytes += answer.kept;
        self.last_number += 1;
        self.answers.insert(self.last_number, answer);
        self.last_number
    }

    fn remove(&mut self, number: u64) -> Option<Unread> {
        let answer = self.answers.remove(&number)?;
        self.bytes -= answer.kept;
        Some(answer)
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes.saturating_add(bytes) > MAX_BYTES
            && let Some((_, ended)) = self.answers.pop_first()
        {
            self.bytes -= ended.kept;
        }
    }
}

impl UnreadAnswers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a body that sends this one in parts, and counts towards the limit meanwhile.
    pub(super) fn keep(self: &Arc<Self>, body: BoxBody) -> BoxBody {
        let whole = match body.try_into_bytes() {
            Ok(whole) if whole.len() > PART => whole,
            Ok(short) => return BoxBody::new(short),
            Err(body) => return body,
        };
        let size = whole.len();
        // Copied, since the buffer in which it was written may be twice as large.
        let answer = Unread { rest: Bytes::copy_from_slice(&whole), kept: size };
        let mut state = self.state();
        state.make_room(size);
        let number = state.insert(answer);
        drop(state);
        BoxBody::new(UnreadBody { answers: Arc::clone(self), number, size })
    }
}

/// The body of an answer.
struct UnreadBody {
    answers: Arc<UnreadAnswers>,
    number: u64,
    size: usize,
}

/// The error of a body that was ended. The server closes its connection.
#[derive(Debug, thiserror::Error)]
#[error("the client has not read its answer for long, and other clients wait for theirs")]
struct Ended;

impl MessageBody for UnreadBody {
    type Error = Ended;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.size as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Ended>>> {
        let mut state = self.answers.state();
        let Some(mut answer) = state.remove(self.number) else { return Poll::Ready(Some(Err(Ended))) };
        let part = answer.rest.split_to(answer.rest.len().min(PART));
        let number = state.insert(answer);
        drop(state);
        self.number = number;
        Poll::Ready((!part.is_empty()).then_some(Ok(part)))
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        // Named, so that the answer is dropped after unlocking.
        let _read = self.answers.state().remove(self.number);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Waker;

    use super::*;

    type Next = Option<Result<Bytes, Box<dyn std::error::Error>>>;

    fn next(body: &mut BoxBody) -> Next {
        match Pin::new(body).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => panic!("an answer is there"),
        }
    }

    fn answer(size: usize) -> BoxBody {
        BoxBody::new(vec![7; size])
    }

    #[test]
    fn an_answer_is_sent_whole_and_in_parts() {
        let answers = Arc::new(UnreadAnswers::default());
        let content: Vec<u8> = (0..3 * PART + 5).map(|at| at as u8).collect();
        let mut body = answers.keep(BoxBody::new(content.clone()));
        assert_eq!(body.size(), BodySize::Sized(content.len() as u64));
        let parts: Vec<Bytes> = std::iter::from_fn(|| next(&mut body)).map(Result::unwrap).collect();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [PART, PART, PART, 5]);
        assert_eq!(parts.concat(), content);
        drop(body);
        assert_eq!(answers.state().bytes, 0);
    }

    #[test]
    fn a_short_answer_needs_no_room() {
        let answers = Arc::new(UnreadAnswers::default());
        let mut short = answers.keep(answer(PART));
        assert_eq!(answers.state().bytes, 0);
        assert_eq!(next(&mut short).unwrap().unwrap().len(), PART);
    }

    #[test]
    fn clients_that_never_read_keep_no_more_than_the_limit() {
        let answers = Arc::new(UnreadAnswers::default());
        let mut unread: Vec<BoxBody> = (0..400).map(|_| answers.keep(answer(300_000))).collect();
        assert!(answers.state().bytes <= MAX_BYTES);
        assert_eq!(answers.state().answers.len(), MAX_BYTES / 300_000);
        assert!(next(unread.last_mut().unwrap()).unwrap().is_ok());
        assert!(next(&mut unread[0]).unwrap().is_err(), "its place was taken");
        drop(unread);
        let state = answers.state();
        assert_eq!((state.bytes, state.answers.len()), (0, 0));
    }

    #[test]
    fn a_client_that_reads_slowly_gets_all_of_its_answer() {
        let answers = Arc::new(UnreadAnswers::default());
        let mut slow = answers.keep(answer(300_000));
        let (mut read, mut unread) = (0, Vec::new());
        while let Some(part) = next(&mut slow) {
            read += part.unwrap().len();
            unread.extend((0..20).map(|_| answers.keep(answer(300_000))));
        }
        assert_eq!(read, 300_000);
        assert!(next(&mut unread[0]).unwrap().is_err());
    }

    #[test]
    fn an_answer_beyond_the_limit_is_sent_too() {
        let answers = Arc::new(UnreadAnswers::default());
        let mut other = answers.keep(answer(300_000));
        let mut large = answers.keep(answer(MAX_BYTES + 1));
        assert!(next(&mut other).unwrap().is_err());
        let read: usize = std::iter::from_fn(|| next(&mut large)).map(|part| part.unwrap().len()).sum();
        assert_eq!(read, MAX_BYTES + 1);
    }
}
