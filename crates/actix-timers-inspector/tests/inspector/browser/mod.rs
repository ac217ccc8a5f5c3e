//! The page of the inspector in a real browser.
//!
//! Run by `.ci/inspector`, which starts a chromedriver and the example `observe`, and passes their addresses.

mod driver;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerFilter, TimerOptions, Timers};
use actix_timers_inspector::Inspector;
use actix_web::{App, HttpServer};
use driver::Browser;
use serde_json::json;

const DESKTOP: (u32, u32) = (1440, 1400);
const PHONE: (u32, u32) = (500, 1000);

/// Key codes of WebDriver.
const ENTER: &str = "\u{E007}";
const ESCAPE: &str = "\u{E00C}";
const RIGHT: &str = "\u{E014}";
const UP: &str = "\u{E013}";
const DOWN: &str = "\u{E015}";

/// An attempt at HTML, a script and a path.
const HOSTILE: &str =
    "<img src=x onerror=\"document.title='taken'\">&amp;\"'/../%2F<script>document.title='taken'</script>";

#[derive(Message)]
#[rtype(result = "()")]
struct Remind;

struct Customer;

impl Actor for Customer {
    type Context = Context<Self>;
}

impl Handler<Remind> for Customer {
    type Result = ();

    fn handle(&mut self, _: Remind, _: &mut Context<Self>) {}
}

/// The id in the facts about a timer.
const ID_SHOWN: &str =
    "[...document.querySelectorAll('#facts dt')].find(name => name.textContent === 'id').nextSibling.textContent";

/// Returns the address of a server that `.ci/inspector` has started.
fn started(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run .ci/inspector"))
}

/// Starts a server in an actix system of its own, which ends with the process: an inspector for each path.
fn serve_on<T: Send + 'static>(
    prepare: impl AsyncFnOnce() -> (T, Vec<(&'static str, Inspector)>) + Send + 'static,
) -> (SocketAddr, T) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        support::in_real_time(async move {
            let (prepared, inspectors) = prepare().await;
            let new_app = move || inspectors.iter().fold(App::new(), |app, (path, it)| app.service(it.scope(path)));
            let server = HttpServer::new(new_app).workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
            tell.send((server.addrs()[0], prepared)).unwrap();
            server.run().await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// Starts a server with timers that stay, one read-only path and one that can cancel.
fn serve() -> (SocketAddr, Timers) {
    serve_on(async || {
        let timers = TimerActor::builder().name("<b>orders</b>").start().unwrap();
        let customer = Target::from(&Customer.start()).strong();
        for number in 0..300_u64 {
            let options = TimerOptions::new().key(format!("order {number}")).group("orders");
            timers.timer(customer.clone(), options).schedule(Duration::from_secs(1000 + number * 60), Remind);
        }
        let hostile = TimerOptions::new().key(HOSTILE).group(HOSTILE);
        timers.timer(customer, hostile).schedule(Duration::from_secs(500), Remind);
        let second = TimerActor::builder().name("second").start().unwrap();
        let look = Inspector::new(&timers).add_timers(&second);
        let cancel = Inspector::new(&timers).allow_cancel(true);
        (timers, vec![("/look", look), ("/cancel", cancel)])
    })
}

fn open(path: &str, size: (u32, u32)) -> Browser {
    let browser = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), size);
    browser.go_to(path);
    browser.wait_for("rings", "document.querySelectorAll('.bucket').length");
    browser.wait_for("rows", "document.querySelectorAll('#rows tr').length");
    browser
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn the_wheel_and_the_closures_of_the_example_are_shown() {
    let page = open(&started("ACTIX_TIMERS_INSPECTOR"), DESKTOP);
    let levels = page.value("document.querySelectorAll('.track').length").as_u64().unwrap();
    assert!(levels >= 2, "{levels} rings");
    assert_eq!(page.value("document.querySelectorAll('.hand').length"), levels);
    assert_eq!(page.value("document.querySelectorAll('#levels tr').length"), levels, "the table agrees");
    assert!(
        page.value("new Set([...document.querySelectorAll('.bucket')].map(b => b.className.baseVal)).size").as_u64()
            > Some(1)
    );
    let hand = "document.querySelector('.hand[data-level=\"1\"]').getAttribute('transform')";
    let first = page.value(hand);
    page.wait_for("the hand moves", &format!("{hand} !== {first}"));
    let accepted = "Number(document.querySelector('#counters dd').textContent.replaceAll(',', ''))";
    let before = page.value(accepted);
    page.wait_for("the counters go on", &format!("{accepted} > {before}"));
    assert_eq!(page.text("#balance"), "All timers are accounted for.");
    assert_eq!(page.text("#state"), "running");
    page.picture("desktop-light");

    let background = "getComputedStyle(document.body).backgroundColor";
    let light = page.value(background);
    page.prefer("dark");
    page.wait_for("the dark page", &format!("{background} !== {light}"));
    page.picture("desktop-dark");

    // Their paths would take the width of the column.
    let closure = "closure at session.rs:42 in <Session as Actor>::started";
    for (name, shown) in [
        ("closure at shop/src/session.rs:42 in <shop::Session as actix::actor::Actor>::started", closure),
        ("closure at shop\\src\\session.rs:42 in <shop::Session as actix::actor::Actor>::started", closure),
        ("shop::Batch<shop::Order>", "Batch<Order>"),
    ] {
        assert_eq!(page.value(&format!("shortType({})", json!(name))), shown);
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_narrow_page_needs_no_scrolling_to_the_side() {
    let page = open(&started("ACTIX_TIMERS_INSPECTOR"), PHONE);
    assert_eq!(page.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), json!(true));
    page.picture("narrow");
}

/// Everything without a mouse.
#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_timer_is_found_by_its_key_and_says_why_it_waits() {
    let (address, timers) = serve();
    let page = open(&format!("http://{address}/look/"), DESKTOP);
    page.keys("/");
    page.wait_for("the focus in the search", "document.activeElement.id === 'query'");
    page.keys("order 77");
    page.keys(ENTER);
    page.wait_for("the one timer", "document.querySelector('#found').textContent === 'Found 1. Search complete.'");
    assert_eq!(page.text("#rows td:nth-child(4)"), "order 77");
    page.run("document.querySelector('#rows tr').focus()");
    page.keys(ENTER);
    page.wait_for("the reason", "document.querySelector('#explanation').textContent");
    let explanation = page.text("#explanation");
    assert!(
        explanation.starts_with("Not due yet: 1h 33m left. It waits on level 2, and goes down a level"),
        "{explanation}"
    );
    assert_eq!(page.text("#announce"), explanation, "a screen reader announces it");
    assert_eq!(page.value("document.querySelector('#cancel')"), json!(null), "nothing can be cancelled here");
    let shown = page.value(ID_SHOWN).as_str().unwrap().to_owned();
    assert_eq!((shown.chars().count(), shown.ends_with('…')), (24, true), "the id is short: {shown}");
    page.run("document.querySelector('.timers').scrollIntoView()");
    page.picture("detail");
    page.keys(ESCAPE);
    page.wait_for(
        "the row again",
        "document.activeElement.closest('#rows tr') && document.querySelector('#detail').hidden",
    );

    page.run("document.querySelector('#by').value = 'group'; document.querySelector('#query').value = 'orders'");
    page.click("#search button");
    page.wait_for("the group", "document.querySelectorAll('#rows tr').length >= 200");
    page.click("#more");
    page.wait_for("all of it", "document.querySelectorAll('#rows tr').length === 300");
    page.run("document.querySelector('#rows tr').focus()");
    page.keys(DOWN);
    page.wait_for("the second row", "document.activeElement === document.querySelectorAll('#rows tr')[1]");

    page.run("document.querySelector('#query').value = ''; document.querySelector('#by-state').value = 'due'");
    page.click("#search button");
    page.wait_for("nothing", "document.querySelector('#rows').textContent === 'No pending timer matches.'");
    assert_eq!(timers.snapshot().counters.pending, 301);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_timer_is_found_by_both_forms_of_its_id() {
    let (address, timers) = serve();
    let page = open(&format!("http://{address}/look/"), DESKTOP);
    let id = timers.list(&TimerFilter::new().key("order 7"))[0].id.to_string();
    let short = &id[..23];
    page.run("document.querySelector('#by').value = 'id'");
    for (text, part) in [(id.as_str(), "the whole"), (short, "the short"), (&format!("{short}…"), "as it is shown")] {
        page.run(&format!("document.querySelector('#query').value = {}", json!(text)));
        page.click("#search button");
        page.wait_for(part, "document.querySelector('#facts')?.textContent.includes('order 7')");
        page.wait_for("the short form in the address", &format!("location.hash === {}", json!(format!("#id={short}"))));
        assert_eq!(page.value(&format!("document.documentElement.outerHTML.includes({})", json!(id))), json!(false));
        page.keys(ESCAPE);
        page.wait_for("the end of it", "document.querySelector('#detail').hidden");
        page.run("document.querySelector('#facts').replaceChildren()");
    }
    let other = timers.list(&TimerFilter::new().key("order 8"))[0].id.to_string();
    for (id, key) in [(&id, "order 7"), (&other, "order 8")] {
        page.run(&format!("location.hash = {}", json!(format!("#id={id}"))));
        page.wait_for(key, &format!("document.querySelector('#facts').textContent.includes({})", json!(key)));
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_key_that_looks_like_an_id_is_found() {
    const KEY: &str = "01932d0c-5f3a-4000-9c4e-6f1d1b0c7a55";
    let (address, _timers) = serve_on(async || {
        let timers = TimerActor::builder().start().unwrap();
        let customer = Target::from(&Customer.start()).strong();
        timers.timer(customer, TimerOptions::new().key(KEY)).schedule(Duration::from_secs(1000), Remind);
        (timers.clone(), vec![("/look", Inspector::new(&timers))])
    });
    let page = open(&format!("http://{address}/look"), DESKTOP);
    page.keys(&format!("/{KEY}{ENTER}"));
    page.wait_for("the one timer", "document.querySelector('#found').textContent === 'Found 1. Search complete.'");
    assert_eq!(page.text("#rows td:nth-child(4)"), KEY);
}

/// Its name resolves to this machine, as another site's name could. Chromium knows `*.localhost` without a resolver.
#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_page_under_a_foreign_name_gets_nothing() {
    let (address, timers) = serve();
    let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
    page.go_to(&format!("http://evil.localhost:{}/cancel/", address.port()));
    page.wait_for("the rejection", "document.body.textContent.includes('host_not_allowed')");
    assert_eq!(timers.snapshot().counters.cancelled, 0);
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn buckets_are_walked_through_with_arrows() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    page.run("document.querySelector('#rings').focus()");
    page.keys(RIGHT);
    page.wait_for("a bucket", "document.querySelectorAll('.bucket.chosen').length === 1");
    let first = page.text("#pointed");
    assert!(first.starts_with("Level 2, bucket "), "{first}");
    page.keys(RIGHT);
    page.wait_for("another", &format!("document.querySelector('#pointed').textContent !== {}", json!(first)));
    page.keys(UP);
    page.keys(ENTER);
    page.wait_for("its timers", "document.querySelector('#timers-title').textContent.startsWith('Bucket on level ')");
    page.wait_for("rows", "document.querySelectorAll('#rows tr[data-id]').length");
    assert_eq!(
        page.value(
            "[...document.querySelectorAll('#rows tr')].every(row => row.cells[1].textContent.startsWith('level '))"
        ),
        json!(true)
    );
    page.keys("p");
    page.wait_for("the pause", "document.querySelector('#pause').getAttribute('aria-pressed') === 'true'");
    page.run("document.querySelector('#timer-actor').value = 'second'; document.querySelector('#timer-actor').dispatchEvent(new Event('change'))");
    page.wait_for("the other timer actor", "document.querySelector('#centre-count').textContent === '0'");
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_timer_is_cancelled_where_that_is_switched_on() {
    let (address, timers) = serve();
    let page = open(&format!("http://{address}/cancel"), DESKTOP);
    open_order(&page, 5);
    page.click("#cancel");
    assert_eq!(page.text("#cancel"), "Confirm cancel");
    assert_eq!(timers.snapshot().counters.cancelled, 0, "not at the first click");
    page.click("#cancel");
    page.wait_for("the outcome", "document.querySelector('#outcome').textContent");
    assert_eq!(page.text("#outcome"), "Cancelled: its handler will not run.");
    assert_eq!(timers.snapshot().counters.cancelled, 1);
    page.wait_for("that it has gone", "document.querySelector('#detail').classList.contains('gone')");
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn markup_in_names_is_shown_as_text() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    page.run(&format!("document.querySelector('#query').value = {}", json!(HOSTILE)));
    page.click("#search button");
    page.wait_for("the timer", "document.querySelector('#rows tr[data-id]')");
    assert_eq!(page.text("#rows td:nth-child(4)"), HOSTILE);
    page.click("#rows tr");
    page.wait_for("the facts", "document.querySelector('#facts dd')");
    assert_eq!(page.value("document.querySelectorAll('main img, main script, main b, header b').length"), json!(0));
    assert_eq!(page.text("#timer-actor option"), "<b>orders</b>");
    assert_eq!(page.value("document.title"), json!("Timers of <b>orders</b>"));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[cfg(feature = "durable")]
mod durable {
    use actix_timers_durable::store::MemoryDisk;
    use actix_timers_durable::{
        Durable, DurableMessage, DurableOptions, DurableTimers, HandlerError, MemoryStore, Pause, Schedule,
    };
    use support::Gate;
    use support::durable::behind;

    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Bill;

    impl DurableMessage for Bill {
        const NAME: &'static str = "bill";
    }

    /// Fails with a text that looks like HTML.
    struct Office;

    impl Actor for Office {
        type Context = Context<Self>;
    }

    impl Handler<Durable<Bill>> for Office {
        type Result = Result<(), HandlerError>;

        fn handle(&mut self, _: Durable<Bill>, _: &mut Context<Self>) -> Self::Result {
            Err(HandlerError::permanent(HOSTILE))
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_dead_letter_is_shown_with_its_error_and_requeued() {
        let (address, ()) = serve_on(async || {
            let timers = TimerActor::builder().name("orders").start().unwrap();
            let bills = DurableTimers::builder(MemoryStore::new()).route::<Bill>("bills", Office.start());
            let bills = bills.start().unwrap();
            let long = DurableOptions::new().if_absent("k".repeat(300));
            let _first = bills.schedule(Schedule::after("bills", Duration::ZERO, Bill).options(long)).await.unwrap();
            let _second = bills.schedule_after("bills", HOUR, Bill).await.unwrap();
            ((), vec![("/cancel", Inspector::new(&timers).add_durable(&bills).allow_cancel(true))])
        });
        let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
        page.go_to(&format!("http://{address}/cancel"));
        let state = "document.querySelector('#durable-rows td:nth-child(2)')?.textContent";
        page.wait_for("the pending timer", &format!("{state} === 'pending'"));
        let counts = "[...document.querySelectorAll('#durable-counts dd')].map(value => value.textContent).join()";
        page.wait_for("the counts", &format!("{counts} === '1,0,1,open'"));
        page.run(
            "document.querySelector('#durable-state').value = 'dead';
            document.querySelector('#durable-state').dispatchEvent(new Event('change'))",
        );
        page.wait_for("the dead letter", &format!("{state} === 'dead'"));
        assert!(page.text("#durable-rows .reason").starts_with(HOSTILE), "a text, not HTML");
        assert_eq!(page.value("document.querySelectorAll('main img, main script').length"), json!(0));
        page.run("document.querySelector('#durable').scrollIntoView()");
        page.picture("durable");
        let beyond = "(list => list.scrollWidth - list.clientWidth)(document.querySelector('#durable .scroll'))";
        assert_eq!(page.value(beyond), json!(0), "the buttons are in view");

        page.click("#durable-rows button");
        assert_eq!(page.text("#durable-rows button"), "Confirm requeue");
        page.click("#durable-rows button");
        page.wait_for("the outcome", "document.querySelector('#durable-outcome').textContent.startsWith('Requeued: ')");
        page.click("#durable-search button");
        assert_eq!(page.text("#durable-outcome"), "", "it is not that of the next search");
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_durable_timer_is_found_by_its_id() {
        for has_actor in [true, false] {
            let (address, id) = serve_on(async move || {
                let bills = DurableTimers::builder(MemoryStore::new()).open_route::<Bill>("bills").start().unwrap();
                let id = bills.schedule_after("bills", HOUR, Bill).await.unwrap().id().to_string();
                let inspector = if has_actor {
                    Inspector::new(&TimerActor::builder().start().unwrap())
                } else {
                    Inspector::of_all_arbiters()
                };
                (id, vec![("/cancel", inspector.add_durable(&bills).allow_cancel(true))])
            });
            let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
            page.go_to(&format!("http://{address}/cancel#id={id}"));
            page.wait_for(
                "the timer",
                "document.querySelector('#explanation').textContent.startsWith('A durable timer')",
            );
            assert_eq!(page.text("#explanation"), "A durable timer of durable: pending.");
            assert_eq!((page.value(ID_SHOWN), page.text("#announce")), (json!(id), page.text("#explanation")));

            let other = format!("{}{}", &id[..35], if id.ends_with('0') { '1' } else { '0' });
            page.run(&format!(
                "document.querySelector('#by').value = 'id'; document.querySelector('#query').value = {}",
                json!(other)
            ));
            page.click("#search button");
            let explanation = "document.querySelector('#explanation').textContent";
            page.wait_for(
                "that there is none",
                &format!("{explanation}.startsWith('No timer with this id is pending')"),
            );
        }
    }

    /// Opens a page with 300 bills whose keys begin with `even` and `odd` in turn.
    fn open_bills() -> Browser {
        let (address, ()) = serve_on(async || {
            let timers = TimerActor::builder().name("orders").start().unwrap();
            let bills = DurableTimers::builder(MemoryStore::new()).open_route::<Bill>("bills").start().unwrap();
            for number in 0..300 {
                let key = format!("{}-{number}", ["even", "odd"][number % 2]);
                let bill = Schedule::after("bills", HOUR, Bill).options(DurableOptions::new().if_absent(key));
                bills.schedule(bill).await.unwrap();
            }
            let inspector = Inspector::new(&timers).add_durable(&bills).allow_cancel(true);
            ((), vec![("/cancel", inspector)])
        });
        let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
        page.go_to(&format!("http://{address}/cancel"));
        page.wait_for("the bills", &format!("{ROWS} === 50"));
        page
    }

    const ROWS: &str = "document.querySelectorAll('#durable-rows tr[data-id]').length";
    const PENDING: &str = "document.querySelector('#durable-counts dd').textContent";

    /// Types the beginning of a key, without a search.
    fn type_prefix(page: &Browser, prefix: &str) {
        page.run(&format!("document.querySelector('#durable-prefix').value = {}", json!(prefix)));
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_route_is_paused_and_resumed_on_the_page() {
        let page = open_bills();
        page.run("document.querySelector('#durable-route').value = 'bills'");
        page.click("#durable-search button");
        for (offer, said) in [("Pause route", "Paused: "), ("Resume", "Resumed."), ("Pause route", "Paused: ")] {
            let button = "document.querySelector('#durable-pauses button')";
            page.wait_for(offer, &format!("{button}?.textContent === {}", json!(offer)));
            for _ in 0..2 {
                page.click("#durable-pauses button");
            }
            let outcome = "document.querySelector('#durable-outcome').textContent";
            page.wait_for(said, &format!("{outcome}.startsWith({})", json!(said)));
        }
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_paused_timer_is_resumed_on_the_page() {
        let (address, ()) = serve_on(async || {
            let bills = DurableTimers::builder(MemoryStore::new()).open_route::<Bill>("bills").start().unwrap();
            let bill = bills.schedule_after("bills", HOUR, Bill).await.unwrap().id();
            bills.pause(Pause::timer(bill).by("ops")).await.unwrap();
            let inspector = Inspector::of_all_arbiters().add_durable(&bills).allow_cancel(true);
            ((), vec![("/cancel", inspector)])
        });
        let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
        page.go_to(&format!("http://{address}/cancel"));
        page.run("document.querySelector('#durable-state').value = 'parked'");
        page.click("#durable-search button");
        page.wait_for(
            "the parked timer",
            "document.querySelector('#durable-rows .reason')?.textContent.startsWith('paused by ops')",
        );
        for text in ["Resume", "Confirm resume"] {
            assert_eq!(page.text("#durable-rows button"), text);
            page.click("#durable-rows button");
        }
        page.wait_for("the outcome", "document.querySelector('#durable-outcome').textContent === 'Resumed.'");
        page.wait_for("the count", &format!("{PENDING} === '1'"));
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn buttons_keep_the_focus_while_the_page_is_updated() {
        let page = open_bills();
        page.run("document.querySelector('#durable-route').value = 'bills'");
        page.click("#durable-search button");
        page.wait_for("the rows", &format!("{ROWS} === 50"));
        page.wait_for("the offer", "document.querySelector('#durable-pauses button')");
        let due = "document.querySelector('#durable-rows td').textContent";
        for place in ["#durable-rows button", "#durable-all button", "#durable-pauses button"] {
            page.run(&format!("window.chosen = document.querySelector({}); chosen.focus()", json!(place)));
            for _ in 0..2 {
                let before = page.value(due);
                page.wait_for("an update", &format!("{due} !== {before}"));
            }
            assert_eq!(page.value("document.activeElement === chosen"), json!(true), "{place}");
        }
        // The first one ends.
        page.run("window.chosen = document.querySelectorAll('#durable-rows button')[1]; chosen.focus()");
        page.run(
            "fetch(location.pathname + '/api/durable/timers/' + document.querySelector('#durable-rows tr').dataset.id,
            { method: 'DELETE', headers: { 'X-Actix-Timers': 'cancel' } })",
        );
        page.wait_for("the update", "document.querySelector('#durable-rows button') === chosen");
        assert_eq!(page.value("document.activeElement === chosen"), json!(true));
        assert_eq!(page.value(ROWS), 50);
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_double_click_confirms_nothing() {
        let page = open_bills();
        let click = |detail| {
            page.run(&format!(
                "document.querySelector('#durable-rows button')
                    .dispatchEvent(new MouseEvent('click', {{ bubbles: true, detail: {detail} }}))"
            ));
        };
        click(1);
        click(2);
        assert_eq!(page.text("#durable-rows button"), "Confirm cancel");
        assert_eq!(page.value("document.querySelector('#durable-rows button').disabled"), json!(false));
        click(1);
        page.wait_for("the cancel", &format!("{PENDING} === '299'"));
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_filter_that_is_only_typed_changes_nothing() {
        let page = open_bills();
        let odd = "[...document.querySelectorAll('#durable-rows td:nth-child(5)')]
            .every(cell => cell.textContent.startsWith('odd-'))";
        type_prefix(&page, "odd");
        page.click("#durable-search button");
        page.wait_for("the odd ones", odd);
        type_prefix(&page, "even");
        page.run("document.querySelector('#durable-rows').firstChild.remove()");
        page.wait_for("an update", &format!("{ROWS} === 50"));
        assert_eq!(page.value(odd), json!(true));
        page.click("#durable-more");
        page.wait_for("all of them", &format!("{ROWS} === 150"));
        assert_eq!(page.value(odd), json!(true));

        type_prefix(&page, "");
        page.run("document.querySelector('#durable-all').scrollIntoView({ block: 'center' })");
        page.click("#durable-all button");
        let question = "document.querySelector('#durable-all button').textContent";
        let asked = "Confirm cancel all: 150 (store durable, key begins with odd)";
        page.wait_for("the number, and the filter", &format!("{question} === {}", json!(asked)));
        page.click("#durable-all button");
        page.wait_for("the cancel", &format!("{PENDING} === '150'"));
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_search_without_an_answer_leaves_nothing_of_an_earlier_one() {
        let page = open_bills();
        page.run("window.real = fetch");
        for (prefix, answer, said) in [
            ("odd", "new Promise(() => {})", "Searching."),
            ("even", "Promise.reject(new TypeError('lost'))", "The store does not respond."),
        ] {
            page.wait_for("all of the filter", "document.querySelector('#durable-all button')");
            page.run(&format!(
                "window.fetch = (path, options) => path.includes('/durable/timers?') ? {answer} : real(path, options)"
            ));
            type_prefix(&page, prefix);
            page.click("#durable-search button");
            let found = "document.querySelector('#durable-found').textContent";
            page.wait_for(said, &format!("{found} === {}", json!(said)));
            let left = "document.querySelectorAll('#durable-all button, #durable-rows tr').length";
            assert_eq!(page.value(left), 0, "{said}");
            page.run("window.fetch = real");
            page.click("#durable-search button");
            page.wait_for("an answer", &format!("{ROWS} === 50"));
        }
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn a_count_that_is_limited_is_confirmed_as_the_first_ones() {
        let page = open_bills();
        page.run(
            "window.real = fetch;
            window.fetch = async (path, options) => {
                const answer = await real(path, options);
                if (!path.includes('/durable/count')) return answer;
                return Response.json({ ...await answer.json(), count: 7, is_limited: true });
            }",
        );
        page.run("document.querySelector('#durable-all').scrollIntoView({ block: 'center' })");
        page.click("#durable-all button");
        let question = "document.querySelector('#durable-all button').textContent";
        page.wait_for("the number", &format!("{question} === 'Confirm cancel all: the first 7 (store durable)'"));
        page.click("#durable-all button");
        page.wait_for("the rejection", "document.querySelector('#durable-outcome').textContent.includes('narrow')");
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn empty_parts_are_looked_through_a_few_at_a_time() {
        let page = open_bills();
        page.run(
            "window.real = fetch;
            window.asked = 0;
            window.fetch = (path, options) => {
                if (!path.includes('cursor=')) return real(path, options);
                asked++;
                return Promise.resolve(Response.json({ durable: durable.store, timers: [], next: 'further', damaged: 0 }));
            }",
        );
        for asked in [20, 40] {
            page.click("#durable-more");
            page.wait_for("some parts", &format!("window.asked === {asked}"));
            assert_eq!(page.value("document.querySelector('#durable-more').hidden"), json!(false));
        }
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn durable_timers_alone_are_no_trouble() {
        let (address, ()) = serve_on(async || {
            let bills = DurableTimers::builder(MemoryStore::new()).open_route::<Bill>("bills").start().unwrap();
            bills.schedule_after("bills", HOUR, Bill).await.unwrap();
            ((), vec![("/look", Inspector::of_all_arbiters().add_durable(&bills))])
        });
        let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
        page.go_to(&format!("http://{address}/look"));
        page.wait_for("the bill", &format!("{ROWS} === 1"));
        assert_eq!(page.text("#found"), "No timer actor runs here.");
        assert_eq!(page.value("document.querySelector('#trouble').hidden"), json!(true));
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    #[test]
    #[ignore = "needs a browser: run by .ci/inspector"]
    fn the_wheel_is_live_while_a_store_hangs() {
        let gate = Gate::default();
        let (store, held) = (behind(&gate, &MemoryDisk::new()), gate.shut());
        let (address, (timers, customer)) = serve_on(async || {
            let timers = TimerActor::builder().name("orders").start().unwrap();
            let bills = DurableTimers::builder(store).open_route::<Bill>("bills").start().unwrap();
            let inspector = Inspector::new(&timers).add_durable(&bills);
            actix::spawn(async move { bills.schedule_after("bills", HOUR, Bill).await });
            ((timers, Customer.start()), vec![("/look", inspector)])
        });
        while gate.waiting() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
        page.go_to(&format!("http://{address}/look"));
        for pending in 1..=3 {
            timers.timer(&customer, TimerOptions::new()).schedule(Duration::from_secs(1000), Remind);
            let shown = format!("document.querySelector('#centre-count').textContent === '{pending}'");
            page.wait_for("the timer", &shown);
        }
        assert_eq!(page.value("document.querySelectorAll('#durable-counts dd').length"), json!(0), "the store hangs");
        drop(held);
        page.wait_for("the durable timer", "document.querySelector('#durable-rows tr[data-id]')");
        assert_eq!(page.complaints(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_search_goes_on_after_a_failure() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/cancel"), DESKTOP);
    page.run(
        "window.real = fetch;
        window.fetch = (path, options) =>
            path.includes('/api/timers?') ? Promise.reject(new TypeError('lost')) : real(path, options);
        document.querySelector('#query').value = 'order 7'",
    );
    page.click("#search button");
    let found = "document.querySelector('#found').textContent";
    page.wait_for("the failure", &format!("{found} === 'Found 0 until a part failed.'"));
    assert_eq!(page.value("document.querySelector('#progress').hidden"), json!(true));
    assert_eq!(page.text("#rows"), "None so far.");
    page.run("window.fetch = real");
    page.click("#more");
    page.wait_for("the timer", &format!("{found} === 'Found 1. Search complete.'"));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn the_error_of_a_search_stays_until_the_next_one() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    page.run(
        "window.real = fetch;
        window.updates = 0;
        window.fetch = (path, options) => { updates += path.includes('/api/wheel'); return real(path, options); };
        document.querySelector('#due-after').value = 'soon'",
    );
    page.click("#search button");
    let trouble = "document.querySelector('#trouble')";
    page.wait_for("the error", &format!("{trouble}.textContent.includes('is not a duration')"));
    let updates = page.value("window.updates").as_u64().unwrap();
    page.wait_for("some updates", &format!("window.updates > {} + 2", updates));
    assert_eq!(page.value(&format!("{trouble}.hidden")), json!(false));
    page.run("document.querySelector('#due-after').value = ''");
    page.click("#search button");
    page.wait_for("its end", &format!("{trouble}.hidden"));
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn all_timer_actors_are_shown_and_searched_at_once() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    let choose = "const choice = document.querySelector('#timer-actor');
        choice.selectedIndex = 2; choice.dispatchEvent(new Event('change'))";
    page.run(choose);
    page.wait_for("the overview", "document.querySelectorAll('#all-rows tr').length === 2");
    page.run("window.chosen = document.querySelector('#all-rows button'); chosen.focus()");
    assert_eq!(page.text("#all-sum"), "301 pending in 2 timer actors.");
    assert_eq!(page.value("document.querySelector('#rings').getClientRects().length"), json!(0), "no wheel of one");
    let location = "document.querySelector('#rows td:nth-child(2)')?.textContent.startsWith('<b>orders</b>: level')";
    page.wait_for("the next of all", location);
    page.run("document.querySelector('#query').value = 'order 7'");
    page.click("#search button");
    page.wait_for("the search in both", "document.querySelector('#found').textContent === 'Found 1. Search complete.'");
    page.picture("all");
    assert_eq!(page.value("chosen.isConnected"), json!(true), "through updates");
    page.run("document.querySelectorAll('#all-rows button')[1].click()");
    page.wait_for("the second", "document.querySelector('#centre-count').textContent === '0'");
    assert_eq!(page.value("document.querySelector('#timer-actor').value"), json!("second"));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// Opens the details of `order N`, which can be cancelled.
fn open_order(page: &Browser, number: u32) {
    page.keys(&format!("/order {number}"));
    page.keys(ENTER);
    let found =
        format!("document.querySelector('#rows tr[data-id] td:nth-child(4)')?.textContent === 'order {number}'");
    page.wait_for("the timer", &found);
    page.click("#rows tr");
    page.wait_for("its facts", &format!("document.querySelector('#facts').textContent.includes('order {number}')"));
    page.wait_for("the button", "document.querySelector('#cancel')");
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_key_that_is_held_confirms_nothing() {
    let (address, timers) = serve();
    let page = open(&format!("http://{address}/cancel"), DESKTOP);
    open_order(&page, 5);
    page.run("document.querySelector('#cancel').focus()");
    page.hold(json!({ "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" }));
    open_order(&page, 7);
    assert_eq!(timers.snapshot().counters.cancelled, 0);
}

#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn the_outcome_of_a_cancel_is_not_shown_at_another_timer() {
    let (address, timers) = serve();
    let page = open(&format!("http://{address}/cancel"), DESKTOP);
    open_order(&page, 5);
    page.run(
        "window.real = fetch;
        window.fetch = async (path, options) => {
            const answer = await real(path, options);
            if (options?.method === 'DELETE') await new Promise(go => { window.go = go; });
            return answer;
        }",
    );
    page.click("#cancel");
    page.click("#cancel");
    page.wait_for("the answer", "window.go");
    open_order(&page, 7);
    page.run("window.go()");
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!((timers.snapshot().counters.cancelled, page.text("#outcome")), (1, String::new()));
}

/// The list is updated each second.
#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_click_that_meets_an_update_of_the_list_opens_its_timer() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    let place = page.run(
        "const row = document.querySelector('#rows tr'); row.scrollIntoView({ block: 'center' });
        const box = row.getBoundingClientRect(); return [box.x + 20, box.y + box.height / 2].map(Math.round);",
    );
    page.press([&place[0], &place[1]], Duration::from_millis(1500));
    page.wait_for("the timer", "!document.querySelector('#detail').hidden");
}

/// Timers that repeat fall behind others.
#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_row_keeps_the_focus_in_any_new_order() {
    let (address, _timers) = serve();
    let page = open(&format!("http://{address}/look"), DESKTOP);
    for (order, focused) in
        [("[1, 2, 3, 0]", 1), ("[2, 3, 0, 1]", 2), ("[1, 2, 0, 3]", 3), ("[3, 2, 1, 0]", 2), ("[1]", 1)]
    {
        let kept = page.run(&format!(
            "const all = window.four ??= timers.found.slice(0, 4);
            timers.found = all; timers.show();
            const row = document.querySelectorAll('#rows tr')[{focused}];
            row.focus(); window.lost = 0;
            row.addEventListener('blur', () => window.lost++);
            timers.found = {order}.map(place => all[place]); timers.show();
            const ids = [...document.querySelectorAll('#rows tr')].map(row => row.dataset.id);
            return [row === document.activeElement, window.lost, String(ids) === String(timers.found.map(row => row.id))];"
        ));
        assert_eq!(kept, json!([true, 0, true]), "{order}");
    }
}

#[cfg(feature = "durable")]
#[test]
#[ignore = "needs a browser: run by .ci/inspector"]
fn a_page_without_timer_actors_pauses_too() {
    use actix_timers_durable::{DurableTimers, MemoryStore};
    let (address, ()) = serve_on(async || {
        let bills = DurableTimers::builder(MemoryStore::new()).start().unwrap();
        ((), vec![("/look", Inspector::of_all_arbiters().add_durable(&bills))])
    });
    let page = Browser::open(&started("ACTIX_TIMERS_CHROMEDRIVER"), DESKTOP);
    page.go_to(&format!("http://{address}/look"));
    page.wait_for("the store", "document.querySelector('#durable-found').textContent !== ''");
    page.run("window.real = fetch; window.asked = 0; window.fetch = (...all) => { asked++; return real(...all); }");
    page.click("#pause");
    std::thread::sleep(Duration::from_millis(1500));
    let before = page.value("window.asked");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(page.value("window.asked"), before);
}
