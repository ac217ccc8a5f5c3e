//! Whole services: what strangers' transactions, large messages and a long way to the server do to deliveries.

use std::time::{Duration, Instant};

use actix::Actor;
use actix_timers_durable::{DurableError, DurableTimers, RouteOptions, Schedule};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::effects::until;
use crate::server::{address, far_away, memory, new_schema, options};
use crate::transactions::{Office, Remind, after, client};
use crate::with_server;

const MEGABYTE: usize = 990_000;

async fn connect(address: &str, schema: &str) -> PostgresStore {
    PostgresStore::connect(address, options(schema)).await.unwrap()
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

with_server! {
    /// They were due long before a stranger locks them, as they wait for room in the window.
    fn overdue_timers_whose_claims_met_a_lock_are_delivered_after_it() {
        support::in_real_time(async {
            let (schema, stranger) = (new_schema(), client().await);
            let office = Office::slow(Duration::from_millis(400));
            let (store, options) = (connect(&address(), &schema).await, RouteOptions::new().window(1));
            let builder = DurableTimers::builder(store).route_with::<Remind>("office", office.clone().start(), options);
            let timers = builder.start().unwrap();
            for number in 0..14 {
                assert!(timers.schedule(after(0, number)).await.unwrap().is_new());
            }
            sleep(Duration::from_millis(3000)).await;
            run(&stranger, &format!("BEGIN; SELECT FROM {schema}.timers WHERE node IS NULL FOR UPDATE")).await;
            sleep(Duration::from_millis(1500)).await;
            assert!(office.numbers().len() < 14, "some were locked");
            run(&stranger, "ROLLBACK").await;
            let begin = Instant::now();
            while office.numbers().len() < 14 {
                assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", office.numbers());
                sleep(Duration::from_millis(50)).await;
            }
            timers.stop().await.unwrap();
        });
    }

    fn an_open_cancel_or_lock_stops_no_other_delivery_or_end() {
        support::in_real_time(async {
            let (schema, stranger) = (new_schema(), client().await);
            let office = Office::slow(Duration::from_millis(500));
            let store = connect(&address(), &schema).await;
            let timers = DurableTimers::builder(store).route::<Remind>("office", office.clone().start()).start().unwrap();
            let mut ids = Vec::new();
            for (number, millis) in [0, 1000, 1000, 3_600_000].into_iter().enumerate() {
                ids.push(timers.schedule(after(millis, number as u32)).await.unwrap().id());
            }
            let [in_handler, held, locked, later] = ids[..] else { unreachable!() };
            office.until(1).await;
            run(&stranger, &format!(
                "BEGIN; SELECT {schema}.cancel('{held}'); SELECT FROM {schema}.timers WHERE id IN ('{locked}', '{in_handler}') FOR UPDATE;
                SELECT {schema}.schedule('office', 'remind', '7'::jsonb, now(), key => 'k'); SELECT {schema}.cancel('{later}')"
            )).await;
            let began = Instant::now();
            for number in 10..60 {
                let _ = timers.schedule(after(1000, number)).await.unwrap();
            }
            office.until(51).await;
            assert!(began.elapsed() < Duration::from_millis(2600), "{:?}", began.elapsed());
            let (looking, rows) = (client().await, format!("SELECT count(*) FROM {schema}.timers WHERE due < {schema}.server_now()"));
            until("the others end", async || number(&looking, &rows).await == 3).await;
            run(&stranger, "ROLLBACK").await;
            until("these are delivered, and end", async || number(&looking, &rows).await == 0).await;
            let mut numbers = office.numbers();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq([0, 1, 2].into_iter().chain(10..60)), "each once");
            timers.stop().await.unwrap();
        });
    }

    fn a_recipient_is_rejected_where_other_nodes_deliver_its_route() {
        support::in_real_time(async {
            let schema = new_schema();
            let builder = DurableTimers::builder(connect(&address(), &schema).await).open_route::<Remind>("home");
            let timers = builder.declare::<Remind>("office").start().unwrap();
            timers.connect("home", Office::default().start()).unwrap();
            let error = timers.connect("office", Office::default().start()).unwrap_err();
            assert!(matches!(&error, DurableError::OnlyDeclared { route } if route == "office"), "{error}");
            timers.stop().await.unwrap();
        });
    }

    #[cfg(target_os = "linux")]
    fn large_messages_are_found_and_delivered_in_bounded_memory() {
        const TIMERS: usize = 1200;
        support::in_real_time(async {
            let (schema, admin) = (new_schema(), client().await);
            let store = connect(&address(), &schema).await;
            run(&admin, &format!(
                "SELECT count({schema}.schedule('office', 'remind', convert_to(repeat(' ', {MEGABYTE}) || '7', 'UTF8'), now()))
                FROM generate_series(1, {TIMERS})"
            )).await;
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let (before, _) = memory();
            let office = Office::default();
            let timers = DurableTimers::builder(store).route::<Remind>("office", office.clone().start()).start().unwrap();
            let end = Instant::now() + Duration::from_secs(120);
            while office.numbers().len() < TIMERS {
                assert!(Instant::now() < end, "{} delivered", office.numbers().len());
                sleep(Duration::from_millis(50)).await;
            }
            let (_, most) = memory();
            println!("memory {} to {} MiB", before >> 20, most >> 20);
            // A window of messages, twice: as they arrive, and as they were received.
            assert!(most < before + (700 << 20), "{} MiB", (most - before) >> 20);
            timers.stop().await.unwrap();
        });
    }

    fn a_timer_is_never_early_by_the_way_to_the_server_or_back() {
        const WAY: Duration = Duration::from_millis(80);
        for (there, back) in [(WAY / 2, WAY / 2), (WAY, Duration::ZERO), (Duration::ZERO, WAY)] {
            let (_runtime, _proxy, address) = far_away(there, back);
            support::in_real_time(async {
                let store = connect(&address, &new_schema()).await;
                let office = Office::default();
                let delay = Duration::from_millis(300);
                // In a transaction before the node has joined: it follows the clock of the server, too.
                let user = client().await;
                let mut called = vec![Instant::now()];
                let _ = store.schedule_in(&user, after(300, 0)).await.unwrap();
                let timers = DurableTimers::builder(store).route::<Remind>("office", office.clone().start()).start().unwrap();
                for number in 1..15 {
                    called.push(Instant::now());
                    let _ = timers.schedule(Schedule::after("office", delay, Remind(number))).await.unwrap();
                    sleep(Duration::from_millis(u64::from(number) * 7)).await;
                }
                office.until(15).await;
                let mut late = Vec::new();
                for (number, at) in office.times() {
                    let took = at - called[number as usize];
                    assert!(took >= delay, "{number}: after {took:?} with {there:?} there and {back:?} back");
                    late.push(took - delay);
                }
                late.sort_unstable();
                assert!(late[late.len() / 2] < WAY * 6, "{late:?} with {there:?} there and {back:?} back");
                timers.stop().await.unwrap();
            });
        }
    }

    #[cfg(target_os = "linux")]
    fn an_idle_service_makes_at_most_12_statements_a_second() {
        let directory = crate::private::open_directory();
        let server = crate::private::Server::private_in(directory.path(), &["log_statement = all"]);
        let log = directory.path().join("data/log");
        let statements = || {
            let log = std::fs::read_to_string(&log).unwrap();
            log.matches("LOG:  execute ").count() + log.matches("LOG:  statement: ").count()
        };
        support::in_real_time(async {
            let store = PostgresStore::connect(server.url(), PostgresOptions::new()).await.unwrap();
            let office = Office::default();
            let timers = DurableTimers::builder(store).route::<Remind>("office", office.clone().start()).start().unwrap();
            let _ = timers.schedule(after(3_600_000, 0)).await.unwrap();
            sleep(Duration::from_secs(3)).await;
            let (before, began) = (statements(), Instant::now());
            sleep(Duration::from_secs(10)).await;
            let rate = (statements() - before) as f64 / began.elapsed().as_secs_f64();
            println!("{rate} statements a second");
            assert!(rate > 5.0 && rate <= 12.0, "{rate} statements a second");
            timers.stop().await.unwrap();
        });
    }
}
