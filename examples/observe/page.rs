//! The page of metrics, for Prometheus.

use std::time::Duration;

use actix_web::{HttpResponse, Responder, web};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub(crate) fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    builder.install_recorder()
}

/// Books that balance, and gauges of now.
pub(crate) async fn metrics(recorder: web::Data<PrometheusHandle>) -> impl Responder {
    let page = actix_timers::scrape(|| recorder.render());
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(page)
}

/// A histogram keeps every sample until this.
pub(crate) async fn keep_up(recorder: PrometheusHandle) {
    loop {
        actix_web::rt::time::sleep(Duration::from_secs(5)).await;
        recorder.run_upkeep();
    }
}
