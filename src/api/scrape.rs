//! Scrapes with consistent numbers.

use crate::metrics::{gate, publishers};
use crate::service::query::directory;

/// Updates the metrics of all timer actors of this process, and of companion crates, and runs `render` before any other
/// publication: `render` reads a consistent snapshot of each timer actor, so its counters add up and its gauges are
/// current.
///
/// Without it, a scrape is up to 250 ms old, longer while nothing happens; and a scrape during a publication, which
/// takes some microseconds, reads half of it: the counters then differ by the events since the previous publication.
/// The built-in listener of an exporter cannot call this; your own handler can.
///
/// Timers continue while `render` runs. Metrics recorded at once are not part of the snapshot: the histograms, the
/// wake-ups and turns of the driver, and requests rejected as `duplicate_id` or `invalid`.
///
/// A message that was counted as delivered, and that its recipient then rejects, cannot be subtracted from a published
/// counter. It then counts as accepted twice: once delivered, and once with its final outcome.
///
/// `render` must not wait for a timer actor to stop or drain on another thread.
///
/// # Panics
/// If `render` panics.
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
