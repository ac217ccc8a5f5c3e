//! The HTTP endpoints: the metrics for Prometheus, and the counters of the timer actor itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_timers::Timers;
use actix_web::{HttpResponse, Responder, web};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::snapshot;

pub(crate) struct Pages {
    pub(crate) recorder: PrometheusHandle,
    pub(crate) timers: Timers,
    /// The counters of the timer actor at the last scrape.
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

/// Serves a consistent page: counters that add up, and current gauges.
pub(crate) async fn metrics(pages: web::Data<Pages>) -> impl Responder {
    let (seen, page) = actix_timers::scrape(|| (pages.timers.snapshot(), pages.recorder.render()));
    *pages.counted.lock().unwrap_or_else(PoisonError::into_inner) = snapshot::lines(&seen);
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(page)
}

/// Serves the same series as counted by the timer actor at the last scrape. The load continues meanwhile, so the two
/// differ now and then.
pub(crate) async fn counted(pages: web::Data<Pages>) -> impl Responder {
    let counted = pages.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    HttpResponse::Ok().content_type("text/plain").body(counted)
}

/// Drains the histograms, which keep every sample until then.
pub(crate) async fn keep_up(recorder: PrometheusHandle) {
    loop {
        actix_web::rt::time::sleep(Duration::from_secs(5)).await;
        recorder.run_upkeep();
    }
}
