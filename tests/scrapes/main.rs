//! Scrapes: time and consistency of the published metrics. A scrape concerns all timer actors of the process, hence a
//! binary for these tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod registered;
mod scraped;
