//! New timers, and deliveries of the earliest ones, while many are pending: nanoseconds per timer.
//!
//! In a round each table does all of its ways, one after the other, and returns to its usual number of timers.

use std::time::Instant;

use super::each;
use crate::contenders::bare::Bare;
use crate::contenders::db_scheduler::DbScheduler;
use crate::contenders::queue::Queue;
use crate::contenders::{How, NODES, SCHEDULE, Table, Way};
use crate::settings::Settings;
use crate::store::{Nodes, Place};
use crate::timer::Book;
use bench::rows::{Row, Rows};

/// The way in which tables are filled.
const FILL: Way = Way { workload: SCHEDULE, subject: "", how: How::Groups(4096) };

/// A table with its timers and its figures.
struct Measured {
    table: Box<dyn Table>,
    book: Book,
    ways: Vec<(Way, Vec<f64>)>,
}

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let nodes = |schema, nodes| Nodes::new(&Place::new(settings, url, schema), nodes);
    let tables: [Box<dyn Table>; 5] = [
        Box::new(nodes("one", 1)),
        Box::new(nodes("three", NODES)),
        Box::new(Bare::new(url)),
        Box::new(Queue::new(url)),
        Box::new(DbScheduler::new(url)),
    ];
    let mut tables: Vec<_> = tables.into_iter().map(|table| Measured::new(settings, table)).collect();
    for round in 0..=settings.rounds {
        for measured in &mut tables {
            measured.round(settings, round > 0);
        }
    }
    for Measured { ways, .. } in tables {
        for (way, samples) in ways {
            rows.extend(way.how.sizes().into_iter().map(|size| Row {
                workload: way.workload,
                layer: "store",
                subject: way.subject.to_owned(),
                size: size as u64,
                unit: "ns a timer",
                samples: samples.clone(),
            }));
        }
    }
}

impl Measured {
    fn new(settings: &Settings, mut table: Box<dyn Table>) -> Self {
        let mut book = Book::new(settings.pending);
        table.schedule(FILL, &book.schedule(settings.pending as usize));
        table.settle();
        let ways = table.ways().into_iter().map(|way| (way, Vec::new())).collect();
        Self { table, book, ways }
    }

    fn round(&mut self, settings: &Settings, counts: bool) {
        let Self { table, book, ways } = self;
        for (way, samples) in ways.iter_mut() {
            let timers = if way.how.is_slow() { settings.scaled(8192, 64) } else { settings.scaled(40_960, 512) };
            let took = if way.workload == SCHEDULE {
                let timers = book.schedule(timers);
                let started = Instant::now();
                table.schedule(*way, &timers);
                started.elapsed()
            } else {
                let started = Instant::now();
                let numbers = table.deliver(*way, timers);
                let took = started.elapsed();
                assert_eq!(numbers.len(), timers, "{way:?}");
                book.deliver(&numbers);
                took
            };
            if counts {
                samples.push(each(took, timers));
            }
        }
        if let Some(missing) = book.usual().checked_sub(book.pending()).filter(|missing| *missing > 0) {
            table.schedule(FILL, &book.schedule(missing as usize));
        } else if book.pending() > book.usual() {
            let deliver = ways.iter().map(|(way, _)| *way).filter(|way| way.workload != SCHEDULE);
            if let Some(way) = deliver.max_by_key(|way| if let How::Groups(size) = way.how { size } else { 0 }) {
                let surplus = (book.pending() - book.usual()) as usize;
                book.deliver(&table.deliver(way, surplus));
            }
        }
        assert_eq!(table.pending(), book.pending(), "the rows of {:?}", ways[0].0);
    }
}
