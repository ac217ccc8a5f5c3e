//! Fuzzes records: the decoder never panics, and each decoded record can be encoded again.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run record -- -max_total_time=60
//! ```

#![no_main]

use actix_timers_durable::store::codec;
use actix_timers_durable::{DueTime, DurableId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let due = DueTime::MIN;
    let id = DurableId::from_parts(0, due, 0);
    // Of another version only the version is read.
    for version in [1, 2] {
        let bytes = &[&[version], bytes].concat()[..];
        let Ok(record) = codec::decode(id, due, bytes) else { continue };
        let mut encoded = Vec::new();
        codec::encode(&record, &mut encoded);
        assert_eq!(codec::decode(id, due, &encoded).as_ref(), Ok(&record));
    }
});
