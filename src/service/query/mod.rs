//! TODO

pub(crate) mod activity;
pub(crate) mod closing;
pub(crate) mod description;
pub(crate) mod directory;
pub(crate) mod selection;
pub(crate) mod survey;
pub(crate) mod wind_down;
