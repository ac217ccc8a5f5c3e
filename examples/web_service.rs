//! Reminders over HTTP: an actix-web service that schedules, lists and cancels, and shows its metrics.
//!
//! | request | does |
//! |---|---|
//! | `POST /reminders` with `{"about": "tax", "in_ms": 60000}` | schedules; replaces a reminder about the same |
//! | `GET /reminders` | lists pending reminders, by deadline |
//! | `GET /reminders/ID` | returns the remaining time |
//! | `DELETE /reminders/ID` | cancels, and returns the outcome |
//! | `GET /sent` | the sent reminders |
//! | `GET /metrics` | metrics for Prometheus |
//!
//! Without arguments it sends all these requests to itself, checks the replies and ends:
//!
//! ```sh
//! cargo run --features web --example web_service
//! cargo run --features web --example web_service -- --serve 127.0.0.1:8080
//! ```

use std::error::Error;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerActor, TimerFilter, TimerId, TimerInfo, TimerOptions, Timers};
use actix_web::http::{Method, StatusCode};
use actix_web::test::{self, TestRequest};
use actix_web::web::{self, Data, Json, Path, ServiceConfig};
use actix_web::{App, HttpResponse, HttpServer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};

#[derive(Message)]
#[rtype(result = "()")]
struct Remind(String);

#[derive(Message)]
#[rtype(result = "Vec<String>")]
struct Sent;

/// The actor that sends reminders; here it only remembers them.
#[derive(Default)]
struct Postman(Vec<String>);

impl Actor for Postman {
    type Context = Context<Self>;
}

impl Handler<Remind> for Postman {
    type Result = ();

    fn handle(&mut self, Remind(about): Remind, _: &mut Self::Context) {
        self.0.push(about);
    }
}

impl Handler<Sent> for Postman {
    type Result = Vec<String>;

    fn handle(&mut self, _: Sent, _: &mut Self::Context) -> Self::Result {
        self.0.clone()
    }
}

/// The data shared by all workers: a handle to the timer actor, usable on any thread.
struct Service {
    timers: Timers,
    postman: Addr<Postman>,
    metrics: PrometheusHandle,
}

fn described(timer: &TimerInfo) -> Value {
    json!({
        "id": timer.id.to_string(),
        "about": timer.key.as_ref().map(ToString::to_string),
        "in_ms": timer.remaining.as_millis() as u64,
    })
}

async fn schedule(service: Data<Service>, request: Json<Value>) -> HttpResponse {
    let (Some(about), Some(in_ms)) = (request["about"].as_str(), request["in_ms"].as_u64()) else {
        return HttpResponse::BadRequest().json(json!({"error": "wanted: {\"about\": text, \"in_ms\": number}"}));
    };
    let options = TimerOptions::new().key(about.to_owned());
    let delay = Duration::from_millis(in_ms);
    match service.timers.timer(&service.postman, options).try_schedule(delay, Remind(about.to_owned())) {
        Ok(id) => HttpResponse::Created().json(json!({"id": id.to_string()})),
        Err(error) => HttpResponse::ServiceUnavailable().json(json!({"error": error.to_string()})),
    }
}

async fn list(service: Data<Service>) -> HttpResponse {
    let filter = TimerFilter::new().actor(&service.postman).limit(1000);
    let timers = service.timers.list(&filter);
    HttpResponse::Ok().json(timers.iter().map(described).collect::<Vec<_>>())
}

async fn show(service: Data<Service>, id: Path<String>) -> HttpResponse {
    let Ok(id) = id.parse::<TimerId>() else { return HttpResponse::BadRequest().finish() };
    match service.timers.get(id) {
        Some(timer) => HttpResponse::Ok().json(described(&timer)),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn cancel(service: Data<Service>, id: Path<String>) -> HttpResponse {
    let Ok(id) = id.parse::<TimerId>() else { return HttpResponse::BadRequest().finish() };
    let outcome = service.timers.cancel(id);
    let status = if outcome.is_cancelled() { StatusCode::OK } else { StatusCode::CONFLICT };
    HttpResponse::build(status).json(json!({"outcome": format!("{outcome:?}")}))
}

async fn sent(service: Data<Service>) -> HttpResponse {
    match service.postman.send(Sent).await {
        Ok(sent) => HttpResponse::Ok().json(sent),
        Err(error) => HttpResponse::InternalServerError().json(json!({"error": error.to_string()})),
    }
}

async fn scrape(service: Data<Service>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(actix_timers::scrape(|| service.metrics.render()))
}

fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    Ok(builder.install_recorder()?)
}

/// Starts the timer actor, and returns the configuration of the server.
fn service() -> Result<impl Fn(&mut ServiceConfig) + Clone, Box<dyn Error>> {
    let metrics = recorder()?;
    let upkeep = metrics.clone();
    actix::spawn(async move {
        loop {
            // Without this upkeep the recorder keeps every sample of its histograms.
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    let timers = TimerActor::builder().name("reminders").start()?;
    let service = Data::new(Service { timers, postman: Postman::default().start(), metrics });
    Ok(move |config: &mut ServiceConfig| {
        config
            .app_data(service.clone())
            .route("/reminders", web::post().to(schedule))
            .route("/reminders", web::get().to(list))
            .route("/reminders/{id}", web::get().to(show))
            .route("/reminders/{id}", web::delete().to(cancel))
            .route("/sent", web::get().to(sent))
            .route("/metrics", web::get().to(scrape));
    })
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let service = service()?;
    Ok(HttpServer::new(move || App::new().configure(service.clone())).workers(2).bind(address)?.run().await?)
}

fn check(holds: bool, what: &str) -> Result<(), Box<dyn Error>> {
    println!("{} {what}", if holds { "ok  " } else { "FAIL" });
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Sends every kind of request and checks the replies.
async fn walk_through() -> Result<(), Box<dyn Error>> {
    let app = test::init_service(App::new().configure(service()?)).await;
    // Returns status and body of the reply.
    let request = async |method: Method, path: String, body: Value| {
        let request = TestRequest::with_uri(&path).method(method).set_json(body).to_request();
        let reply = test::call_service(&app, request).await;
        (reply.status().as_u16(), String::from_utf8_lossy(&test::read_body(reply).await).into_owned())
    };
    let get = async |path: &str| request(Method::GET, path.to_owned(), Value::Null).await;
    let schedule = async |about: &str, in_ms: u64| -> Result<String, Box<dyn Error>> {
        let reminder = json!({"about": about, "in_ms": in_ms});
        let (status, body) = request(Method::POST, "/reminders".to_owned(), reminder).await;
        check(status == 201, &format!("a reminder about {about} is taken"))?;
        let body: Value = serde_json::from_str(&body)?;
        Ok(body["id"].as_str().ok_or("no id")?.to_owned())
    };
    let rent = schedule("rent", 3_600_000).await?;
    let tax = schedule("tax", 7_200_000).await?;
    schedule("tea", 50).await?;
    let later = schedule("rent", 10_800_000).await?;

    let listed: Vec<Value> = serde_json::from_str(&get("/reminders").await.1)?;
    let listed: Vec<&str> = listed.iter().filter_map(|timer| timer["id"].as_str()).collect();
    check(listed.ends_with(&[&*tax, &*later]), "the list is sorted, and the second about rent replaced the first")?;
    check(get(&format!("/reminders/{rent}")).await.0 == 404, "the first is gone")?;

    let cancel = async |id: &str| request(Method::DELETE, format!("/reminders/{id}"), Value::Null).await;
    let (status, body) = cancel(&tax).await;
    check(status == 200 && body.contains("Cancelled"), "a cancel says that it cancelled")?;
    check(cancel(&tax).await.0 == 409, "and a second one that it did not")?;
    check(cancel("nonsense").await.0 == 400, "a malformed id is rejected")?;
    let malformed = request(Method::POST, "/reminders".to_owned(), json!({})).await;
    check(malformed.0 == 400, "and so is a malformed reminder")?;

    // The reminder is due in 50 ms; a busy machine may take longer.
    let mut tries = 0;
    while get("/sent").await.1 == "[]" && tries < 1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        tries += 1;
    }
    check(get("/sent").await.1 == "[\"tea\"]", "the tea is ready, and nothing else was sent")?;
    check(get("/metrics").await.1.contains("actix_timers_pending{timer=\"reminders\"}"), "the metrics are there")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => System::new().block_on(walk_through()),
        ["--serve", address] => System::new().block_on(serve(address)),
        _ => Err("usage: web_service [--serve ADDRESS]".into()),
    }
}
