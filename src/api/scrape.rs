//! A scrape whose numbers belong together.

use crate::metrics::{gate, publishers};
use crate::service::query::directory;

/// Brings the metrics of all timer actors of this process, and of companion crates, up to date, and runs `render` before
/// anything else is published: what it reads was true at one moment for each timer actor, so that its counters add up, and its
/// gauges are of now.
///
/// Without it, what a scrape shows is up to 250 ms old, longer while nothing happens, and one that falls into a publication,
/// which takes some microseconds, sees one half of it: the counters do not add up by what happened since the publication
/// before. The listener that an exporter brings along cannot call this; a handler of your own can.
///
/// While `render` runs timers go on as ever. Not together with the rest are what is counted at once: the histograms, the
/// wake-ups and the turns of the driver, and requests refused as `duplicate_id` or `invalid`.
///
/// A message that was counted as delivered, and then turns out to have been refused by its recipient, cannot be taken back
/// from a counter. If it was published in between, it counts as accepted twice: once delivered, and once as what became of
/// it.
///
/// `render` must not wait for a timer actor to stop or to be drained on another thread.
///
/// # Panics
/// If `render` does.
///
/// ```
/// use metrics_exporter_prometheus::PrometheusBuilder;
///
/// let recorder = PrometheusBuilder::new().build_recorder();
/// let handle = recorder.handle();
/// let page = actix_timers::scrape(|| handle.render());
/// assert!(!page.contains("NaN"));
/// ```
pub fn scrape<R>(render: impl FnOnce() -> R) -> R {
    // Dropped after the scrape: these may be the last references.
    let services = directory::running();
    let rendered = gate::scrape(|| {
        services.iter().for_each(|service| service.publish());
        publishers::publish_all();
        render()
    });
    drop(services);
    rendered
}
