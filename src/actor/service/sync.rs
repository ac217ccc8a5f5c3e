//! What threads share, in one place.

pub(crate) use std::sync::atomic::Ordering;

pub(crate) use crate::sync::*;
