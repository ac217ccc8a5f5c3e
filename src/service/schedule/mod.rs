//! TODO

pub(crate) mod admission;
pub(crate) mod deadline;
pub(crate) mod random;
pub(crate) mod repeating;
pub(crate) mod requests;
