//! What is served: the metrics for Prometheus, and beside them what the timer actor itself counts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_timers::Timers;
use actix_web::{HttpResponse, Responder, web};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::snapshot;

pub(crate) struct Pages {
    pub(crate) recorder: PrometheusHandle,
    pub(crate) timers: Timers,
    /// What the timer actor counted at the last scrape.
    pub(crate) counted: Mutex<String>,
}

pub(crate) fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    let buckets = actix_timers::metrics::histogram_buckets();
    #[cfg(feature = "durable")]
    let buckets = buckets.chain(actix_timers_durable::metrics::histogram_buckets());
    for (name, buckets) in buckets {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    builder.install_recorder()
}

/// Counters that add up, and gauges of now.
pub(crate) async fn metrics(pages: web::Data<Pages>) -> impl Responder {
    let (seen, page) = actix_timers::scrape(|| (pages.timers.snapshot(), pages.recorder.render()));
    *pages.counted.lock().unwrap_or_else(PoisonError::into_inner) = snapshot::lines(&seen);
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(page)
}

/// The same as the timer actor counts it, at the last scrape. The load does not stand still for that: now and then
/// something has happened between the two.
pub(crate) async fn counted(pages: web::Data<Pages>) -> impl Responder {
    let counted = pages.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    HttpResponse::Ok().content_type("text/plain").body(counted)
}

/// A histogram keeps every sample until this.
pub(crate) async fn keep_up(recorder: PrometheusHandle) {
    loop {
        actix_web::rt::time::sleep(Duration::from_secs(5)).await;
        recorder.run_upkeep();
    }
}
