//! The server lacks connections, space or free locks for a while, and its vacuum lags behind a snapshot.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::cluster::{Cluster, LEASE, in_rounds, now};
use crate::samples::client;
use crate::server::{Server, open_directory, run};
use crate::stalls::Stalls;

/// The longest time to the answer of a request, whatever the server does.
const ANSWER: Duration = Duration::from_secs(30);

fn assert_bounded(cluster: &Cluster) {
    let longest = cluster.book.longest_wait();
    eprintln!("longest wait {longest:?}");
    assert!(longest <= ANSWER, "a request was answered after {longest:?}: {}", cluster.evidence());
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn nodes_recover_when_connections_are_free_again() {
    in_rounds(|mut random| {
        let server = Server::private(&["max_connections = 24"]);
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        for length in [LEASE / 2, LEASE + Duration::from_millis(2000 + random.below(2000))] {
            std::thread::sleep(Duration::from_secs(1));
            labels.iter().for_each(|label| cluster.absent(label));
            let hogs = cluster.runtime.block_on(take_connections(server.url()));
            std::thread::sleep(length);
            drop(hogs);
            cluster.recover();
        }
        assert_bounded(&cluster);
        cluster.finish();
    });
}

/// Ends all other sessions, and takes their places.
async fn take_connections(url: &str) -> Vec<Client> {
    let mut hogs = vec![client(url).await.unwrap()];
    let began = Instant::now();
    let mut pids: Vec<i32> = Vec::new();
    while began.elapsed() < Duration::from_secs(1) {
        match client(url).await {
            Ok(hog) => hogs.push(hog),
            Err(_) => {
                pids.clear();
                for hog in &hogs {
                    let pid = hog.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
                    pids.push(pid.get(0));
                }
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL ($1)";
                hogs[0].query(end, &[&pids]).await.unwrap();
            }
        }
    }
    hogs
}

/// A file system in a file.
struct Disk(tempfile::TempDir);

/// Its size in MiB.
const DISK: u64 = 300;

impl Disk {
    fn new() -> Self {
        let disk = Self(open_directory());
        let image = disk.0.path().join("image");
        File::create(&image).unwrap().set_len(DISK << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        std::fs::create_dir(disk.path()).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(disk.path()));
        disk
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("disk")
    }

    /// Leaves no space.
    fn fill(&self) {
        let mut ballast = File::create(self.path().join("ballast")).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if ballast.write_all(&vec![1; size]).is_err() {
                size /= 2;
            }
        }
        let _ = ballast.sync_all();
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).stderr(Stdio::null()).status();
    }
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_outlive_a_full_disk_of_the_server() {
    in_rounds(|_| {
        let disk = Disk::new();
        let settings = ["min_wal_size = 32MB", "max_wal_size = 48MB", "wal_recycle = off", "wal_init_zero = on"];
        let server = Server::private_in(&disk.path(), &settings);
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        std::thread::sleep(Duration::from_secs(1));
        labels.iter().for_each(|label| cluster.absent(label));
        let errors = |cluster: &Cluster| {
            labels.iter().map(|label| cluster.book.errors(label)).map(|(refused, unsure)| refused + unsure).sum::<u64>()
        };
        let before = errors(&cluster);
        disk.fill();
        let began = Instant::now();
        while errors(&cluster) == before && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
            cluster.book.read();
        }
        assert!(errors(&cluster) > before, "the disk is full");
        std::thread::sleep(LEASE + Duration::from_secs(1));
        disk.free();
        if !server.is_running() {
            eprintln!("the server had ended");
            server.start();
        }
        cluster.recover();
        assert_bounded(&cluster);
        cluster.finish();
        drop(server);
    });
}

/// The sizes of tables grow; nothing else changes.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_pinned_snapshot_makes_nothing_late() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, _) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        let pin = cluster.client();
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        cluster.runtime.block_on(pin.batch_execute(begin)).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let from = now();
        let stalls = Stalls::watch(&cluster);
        std::thread::sleep(Duration::from_secs(20));
        cluster.check();
        stalls.assert_punctual(&cluster.book, from, Duration::from_secs(1), 1, &[]);
        cluster.assert_none(&cluster.book.repeated());
        // A node dies, and its claims are released, all the same.
        let label = cluster.labels().remove(0);
        let since = Instant::now();
        cluster.kill(&label);
        cluster.wait_released(&label, since);
        cluster.finish();
        drop(pin);
    });
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn nodes_recover_when_locked_tables_are_free_again() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        for table in ["timers", "nodes", "routes", "pauses", "dead_letters"] {
            std::thread::sleep(Duration::from_millis(500));
            labels.iter().for_each(|label| cluster.absent(label));
            let locker = cluster.client();
            let lock = format!("BEGIN; LOCK TABLE {}.{table} IN ACCESS EXCLUSIVE MODE", cluster.schema());
            cluster.runtime.block_on(locker.batch_execute(&lock)).unwrap();
            std::thread::sleep(Duration::from_millis(200) + LEASE * random.below(3) as u32);
            cluster.runtime.block_on(locker.batch_execute("COMMIT")).unwrap();
            cluster.recover();
        }
        assert_bounded(&cluster);
        cluster.finish();
    });
}
