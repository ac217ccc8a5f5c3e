//! The durable timers of the benches `durable` and `postgres`: all have messages of one type and size.

use std::sync::Arc;

use actix_timers_durable::store::{Progress, Record};
use actix_timers_durable::{DueTime, DurableId, DurableMessage};
use serde::{Deserialize, Serialize};

/// Bytes of each timer's message.
pub const PAYLOAD: usize = 96;
pub const MESSAGE_TYPE: &str = "Remind";

#[derive(Clone, Serialize, Deserialize)]
pub struct Remind {
    pub number: u64,
    pub text: String,
}

impl DurableMessage for Remind {
    const NAME: &'static str = MESSAGE_TYPE;
}

/// Returns a message that is serialized to [`PAYLOAD`] bytes.
pub fn remind(number: u64) -> Remind {
    let others = r#"{"number":,"text":""}"#.len() + number.to_string().len();
    Remind { number, text: "x".repeat(PAYLOAD - others) }
}

/// Returns the id of a timer. Consecutive numbers are poor random bits, so they are mixed.
pub fn id(due: DueTime, number: u64) -> DurableId {
    DurableId::from_parts(due, number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns a new timer as a store keeps it.
pub fn record(id: DurableId, due: DueTime, route: &str, payload: impl Into<Arc<[u8]>>) -> Record {
    Record {
        id,
        progress: Progress::first(due),
        route: route.into(),
        message_type: MESSAGE_TYPE.into(),
        message_version: 1,
        key: None,
        repeat: None,
        keep_key: None,
        max_attempts: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: payload.into(),
    }
}
