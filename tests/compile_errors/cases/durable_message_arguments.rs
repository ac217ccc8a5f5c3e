//! A message has two names or versions in the store, or its arguments have no commas.
//!
//! error: a message has one name, one version and one crate
//! at: "b"
//! error: a message has one name, one version and one crate
//! at: 3
//! error: expected `,`
//! at: version

use actix_timers_durable::DurableMessage;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, DurableMessage)]
#[cfg_attr(not(advised), durable("a"))]
#[durable("b")]
pub struct Renamed;

#[derive(Serialize, Deserialize, DurableMessage)]
#[cfg_attr(not(advised), durable("a", version = 2, version = 3))]
#[cfg_attr(advised, durable("a", version = 3))]
pub struct Changed;

#[derive(Serialize, Deserialize, DurableMessage)]
#[cfg_attr(not(advised), durable("a" version = 2))]
#[cfg_attr(advised, durable("a", version = 2))]
pub struct Written;
