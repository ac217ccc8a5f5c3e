//! Snapshots of the server: the transactions whose writes were visible.

use std::str::FromStr;

/// A `pg_snapshot`: transactions from `xmax` on, and those `in_progress`, were not visible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Snapshot {
    text: String,
    pub(crate) xmax: u64,
    pub(crate) in_progress: Vec<u64>,
}

impl Snapshot {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Snapshot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, ':');
        let _xmin: u64 = parts.next().ok_or(())?.parse().map_err(drop)?;
        let xmax = parts.next().ok_or(())?.parse().map_err(drop)?;
        let in_progress = parts.next().ok_or(())?;
        let in_progress = in_progress.split(',').filter(|xid| !xid.is_empty()).map(|xid| xid.parse().map_err(drop));
        Ok(Self { text: text.to_owned(), xmax, in_progress: in_progress.collect::<Result<_, ()>>()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_parsed() {
        let snapshot: Snapshot = "10:20:10,14,15".parse().unwrap();
        assert_eq!((snapshot.xmax, &snapshot.in_progress[..]), (20, &[10, 14, 15][..]));
        assert!("7:7:".parse::<Snapshot>().unwrap().in_progress.is_empty());
        for text in ["", "1", "1:2", "a:2:", "1:2:x"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text:?}");
        }
    }
}
