//! The page: one document, including style and script, that loads nothing from elsewhere.

use std::sync::LazyLock;

use actix_timers::integration::unguessable;
use actix_web::HttpResponse;

/// A per-response CSP nonce allows exactly this style and script.
const NONCE: &str = "{{nonce}}";

/// The scripts, in the order in which they appear in the page.
const SCRIPTS: [&str; 6] = [
    include_str!("page/basics.js"),
    include_str!("page/rings.js"),
    include_str!("page/figures.js"),
    include_str!("page/timers.js"),
    include_str!("page/durable.js"),
    include_str!("page/page.js"),
];

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html")
        .replace("{{style}}", include_str!("page/page.css"))
        .replace("{{script}}", &SCRIPTS.concat())
});

pub(super) fn page() -> HttpResponse {
    let nonce = format!("{:016x}{:016x}", unguessable(), unguessable());
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    );
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header(("Content-Security-Policy", policy))
        .insert_header(("X-Frame-Options", "SAMEORIGIN"))
        .insert_header(("Cross-Origin-Opener-Policy", "same-origin"))
        .body(DOCUMENT.replace(NONCE, &nonce))
}
