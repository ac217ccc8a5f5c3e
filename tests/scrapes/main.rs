//! Scrapes: what is published when, and that it adds up. A scrape concerns all timer actors of the process, hence a binary for
//! these tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod registered;
mod scraped;
