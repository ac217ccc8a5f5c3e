//! Bytes that are a record, or are not: the decoder answers, and what it takes for one it can write again.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run record -- -max_total_time=60
//! ```

#![no_main]

use actix_timers_durable::store::codec;
use actix_timers_durable::{DueTime, DurableId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Of another version nothing more is read.
    let bytes = &[&[1], bytes].concat()[..];
    let due = DueTime::MIN;
    let id = DurableId::from_parts(0, due, 0);
    let Ok(record) = codec::decode(id, due, bytes) else { return };
    let mut encoded = Vec::new();
    codec::encode(&record, &mut encoded);
    assert_eq!(codec::decode(id, due, &encoded).as_ref(), Ok(&record));
});
