//! Fuzzes the JSON columns of rows: reading never panics, and each value that was read can be written and read again.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run json -- -max_total_time=60
//! ```

#![no_main]

use actix_timers_durable::store::{
    headers_from_json, headers_to_json, repeat_from_json, repeat_to_json, retry_from_json, retry_to_json,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|column: &str| {
    if let Some(headers) = headers_from_json(Some(column)) {
        assert_eq!(headers_from_json(headers_to_json(&headers).as_deref()), Some(headers));
    }
    if let Some(repeat) = repeat_from_json(column) {
        assert_eq!(repeat_from_json(&repeat_to_json(&repeat)), Some(repeat));
    }
    if let Some(retry) = retry_from_json(column, Some(3)) {
        assert_eq!(retry_from_json(&retry_to_json(&retry), Some(3)), Some(retry));
    }
});
