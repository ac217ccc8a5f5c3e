//! The example `departures` on three nodes that share a PostgreSQL, killed with SIGKILL.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::program::{FIVE, Finished, Folder, Running, TOO_LONG, finish, row, run, start};
use crate::store::{KILLS, Seeded, Wanted, assert_replayed, input};

/// A database of a test, removed when dropped.
struct Database {
    runtime: tokio::runtime::Runtime,
    client: Client,
    server: String,
    name: String,
    url: String,
}

impl Database {
    /// Creates a database on the server of `DATABASE_URL`.
    fn new(test: &str) -> Self {
        let server =
            std::env::var("DATABASE_URL").expect("DATABASE_URL, see crates/actix-timers-postgres/tests/server");
        let (address, _) = server.rsplit_once('/').expect("an address with a database");
        let name = format!("departures_{test}_{}", std::process::id());
        let url = format!("{address}/{name}");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async {
            let admin = connect(&server).await;
            admin.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a new database");
            connect(&url).await
        });
        Self { runtime, client, server, name, url }
    }

    /// Returns the log as node and line, and nothing until all is scheduled.
    fn log(&self) -> Vec<(String, String)> {
        let sql = "SELECT node, line FROM departures.log ORDER BY number";
        // There is no table yet.
        let rows = self.runtime.block_on(self.client.query(sql, &[])).unwrap_or_default();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Waits until a node has handled so many messages.
    fn wait(&self, node: &str, messages: usize) {
        let began = Instant::now();
        while self.log().iter().filter(|(handled_by, _)| handled_by == node).count() < messages {
            assert!(began.elapsed() < TOO_LONG, "node {node} gets nowhere: {} messages", self.log().len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

impl Drop for Database {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            let admin = connect(&self.server).await;
            let _ = admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
        });
    }
}

/// Returns the totals of a report, without the lag.
fn totals(finished: &Finished) -> String {
    let total = row(finished, "total");
    total.split(' ').take(5).collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "needs a server: crates/actix-timers-postgres/tests/server cargo test -p departures --all-features -- --ignored"]
fn three_nodes_of_which_two_are_killed_have_the_totals_of_one() {
    let (folder, database, input) = (Folder::new(), Database::new("kills"), input());
    let wanted = Wanted::by(&input);
    let messages = wanted.calls + wanted.cancelled + wanted.rescheduled;
    let path = folder.file("july", &input);
    let node = |name: &str| start(&["--input", &path, "--store", &database.url, "--node", name]);
    let kill = |name: &str, mut running: Running, messages: usize| {
        database.wait(name, messages);
        assert!(running.0.try_wait().expect("it can be asked").is_none(), "node {name} has ended");
        // Dropping kills the process, on Unix with SIGKILL, and waits for it.
        drop(running);
    };
    let (first, second, third) = (node("1"), node("2"), node("3"));
    kill("1", first, messages / 9);
    kill("3", third, messages / 6);
    let finished = finish(second);
    let log = database.log();
    assert_replayed(log.iter().map(|(_, line)| line.as_str()), &finished, &wanted);
    let by_node = ["1", "2", "3"].map(|node| log.iter().filter(|(handled_by, _)| handled_by == node).count());
    let reported = row(&finished, "handled by node");
    assert_eq!(reported, format!("handledbynode 1:{},2:{},3:{}", by_node[0], by_node[1], by_node[2]));
    assert!(by_node[1] < messages, "the survivor has not done all alone: {by_node:?}");

    let alone = run(&["--input", &path]);
    assert_eq!(totals(&finished), totals(&alone));
    let again = run(&["--input", &path, "--store", &database.url, "--node", "1"]);
    assert!(again.stderr.contains("departures: this replay is finished, nothing is left to do"), "{}", again.stderr);
    assert_eq!(totals(&again), totals(&alone));
}

#[test]
#[ignore = "needs a server: crates/actix-timers-postgres/tests/server cargo test -p departures --all-features -- --ignored"]
fn three_nodes_killed_ten_times_have_exact_totals() {
    let (folder, database, input) = (Folder::new(), Database::new("again"), input());
    let wanted = Wanted::by(&input);
    let messages = wanted.calls + wanted.cancelled + wanted.rescheduled;
    let path = folder.file("july", &input);
    let node = |name: &str| start(&["--input", &path, "--store", &database.url, "--node", name]);
    let (names, mut random) = (["1", "2", "3"], Seeded(3));
    let mut nodes = names.map(node);
    for kill in 0..KILLS {
        let share = messages / (KILLS + 1) as usize;
        let until = share * kill as usize + random.below(share);
        let began = Instant::now();
        while database.log().len() < until {
            assert!(began.elapsed() < TOO_LONG, "kill {kill}: {} messages", database.log().len());
            std::thread::sleep(Duration::from_millis(5));
        }
        let place = random.below(nodes.len());
        // The one that is replaced is killed.
        let mut killed = std::mem::replace(&mut nodes[place], node(names[place]));
        if killed.0.try_wait().expect("it can be asked").is_some() {
            let Finished { code, stderr, .. } = finish(killed);
            panic!(
                "kill {kill}: node {place} has ended after {} of {messages}: {code:?} {stderr}",
                database.log().len()
            );
        }
    }
    let [finished, ..] = nodes.map(finish);
    let log = database.log();
    assert_replayed(log.iter().map(|(_, line)| line.as_str()), &finished, &wanted);
}

#[test]
#[ignore = "needs a server: crates/actix-timers-postgres/tests/server cargo test -p departures --all-features -- --ignored"]
fn a_database_is_about_one_input() {
    let (folder, database) = (Folder::new(), Database::new("input"));
    let node = |input: &str| run(&["--input", input, "--store", &database.url, "--node", "1"]);
    let finished = node(&folder.file("five", FIVE));
    let log = database.log();
    assert_replayed(log.iter().map(|(_, line)| line.as_str()), &finished, &Wanted::by(FIVE));
    let Finished { code, stderr, .. } = node(&folder.file("other", FIVE.replace("11:00:00", "11:01:00")));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("--store postgres://...: is about other flights"), "{stderr}");
}

#[test]
fn an_unreachable_server_is_named_without_its_password() {
    let folder = Folder::new();
    let five = folder.file("unreachable", FIVE);
    let url = "postgres://somebody:secret@127.0.0.1:1/nowhere";
    let Finished { code, stdout, stderr } = run(&["--input", &five, "--store", url, "--node", "1"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.starts_with("departures: --store postgres://...: "), "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
}
