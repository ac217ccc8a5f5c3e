//! Records of a newer version on disk.

use super::world::{World, at};
use crate::ledger::{Note, Request};
use crate::store::{EmbeddedStore, Part, Position};

impl World {
    /// Gives a pending record in files another version, as if another build had written it, between two processes.
    fn set_version(&mut self, position: Position, version: u8) {
        self.ask(|answer| Request::Close { answer }).unwrap();
        let mut store = EmbeddedStore::open(self.files.as_ref().unwrap().path()).unwrap();
        store.set_version(Part::Pending, position, version);
        drop(store);
        self.reopen();
    }
}

#[test]
fn a_record_of_a_newer_version_is_reported_once_and_holds_up_no_other() {
    let mut world = World::in_files(100);
    let newer = world.schedule(1000);
    let others: Vec<_> = (0..5).map(|number| world.schedule(2000 + number * 100_000)).collect();
    let position = Position { due: at(1000), id: newer };
    world.set_version(position, 200);
    let delivered = world.run_to(1_000_000);
    assert_eq!(delivered.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), others);
    assert_eq!(world.counts().pending, 1);
    if cfg!(feature = "tracing") {
        let notes = world.notes();
        let of_it = notes.iter().filter(|note| matches!(note, Note::Newer { version: 200, id } if *id == newer));
        assert_eq!(of_it.count(), 1, "{notes:?}");
    }
    world.set_version(position, 1);
    assert_eq!(world.run_to(1_000_100), [(1_000_000, newer, 1)]);
}
