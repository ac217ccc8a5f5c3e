//! Serves the metrics of the timer actor to Prometheus, from a handler of an actix-web server.
//!
//! The server has its own thread and runtime, since the replay's runtime may run in virtual time.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, Responder, web};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Starts the server on `address`, and returns the bound address. Call it before the timer actor starts, which takes
/// the recorder that it finds.
///
/// # Errors
/// Names the reason why the server cannot start.
pub(crate) fn serve(address: &str) -> Result<SocketAddr, String> {
    let listener = TcpListener::bind(address).map_err(|wrong| wrong.to_string())?;
    let bound = listener.local_addr().map_err(|wrong| wrong.to_string())?;
    let recorder = install_recorder().map_err(|wrong| wrong.to_string())?;
    let run = move || {
        if let Err(wrong) = actix_web::rt::System::new().block_on(answer(listener, recorder)) {
            crate::complain(&format!("the server of the metrics has stopped: {wrong}"));
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(run).map_err(|wrong| wrong.to_string())?;
    Ok(bound)
}

fn install_recorder() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    let mut builder = PrometheusBuilder::new();
    let buckets = actix_timers::metrics::histogram_buckets();
    #[cfg(feature = "durable")]
    let buckets = buckets.chain(actix_timers_durable::metrics::histogram_buckets());
    for (name, buckets) in buckets {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    builder.install_recorder()
}

async fn answer(listener: TcpListener, recorder: PrometheusHandle) -> std::io::Result<()> {
    let recorder = web::Data::new(recorder);
    actix_web::rt::spawn(keep_up(recorder.clone()));
    HttpServer::new(move || App::new().app_data(recorder.clone()).route("/metrics", web::get().to(scrape)))
        .workers(1)
        .disable_signals()
        .listen(listener)?
        .run()
        .await
}

/// Renders a consistent snapshot.
async fn scrape(recorder: web::Data<PrometheusHandle>) -> impl Responder {
    let page = actix_timers::scrape(|| recorder.render());
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(page)
}

/// Drains the histograms, which keep every sample until then.
async fn keep_up(recorder: web::Data<PrometheusHandle>) {
    loop {
        actix_web::rt::time::sleep(Duration::from_secs(5)).await;
        recorder.run_upkeep();
    }
}
