//! The page: one document, with style and script in it, that asks for nothing from elsewhere.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use actix_web::HttpResponse;

/// Style and script are allowed by this word, which is another one in each answer.
const NONCE: &str = "{{nonce}}";

/// In the order in which they stand in the page.
const SCRIPTS: [&str; 5] = [
    include_str!("page/basics.js"),
    include_str!("page/rings.js"),
    include_str!("page/figures.js"),
    include_str!("page/timers.js"),
    include_str!("page/page.js"),
];

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html")
        .replace("{{style}}", include_str!("page/page.css"))
        .replace("{{script}}", &SCRIPTS.concat())
});

pub(super) fn page() -> HttpResponse {
    let nonce = format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    );
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header(("Content-Security-Policy", policy))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .insert_header(("Referrer-Policy", "no-referrer"))
        .insert_header(("Cache-Control", "no-store"))
        .body(DOCUMENT.replace(NONCE, &nonce))
}
