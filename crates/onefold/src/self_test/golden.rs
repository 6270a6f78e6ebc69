//! A part of the committed store of format 1 is read: its config, two of its backups, and their
//! containers.

use std::io;
use std::sync::Arc;

use env::{Env, MemoryStorage, Storage};
use format::wire;
use restore::{AssembleOptions, Output};
use session::Filter;
use types::ObjectName;

use super::{Done, MACHINE, Stop};
use crate::check::ReadData;
use crate::credential::Credential;
use crate::monitor::Monitor;
use crate::store::{OpenOptions, Store};

/// The objects of an image's backup, and of a stream's, with those that they refer to.
macro_rules! objects {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../../testdata/store-v1/", $name)))),*]
    };
}

/// Names and bytes.
fn objects() -> Vec<(&'static str, Vec<u8>)> {
    const OBJECTS: [(&str, &[u8]); 14] = objects!(
        "config/1.0",
        "config/1.1",
        "backups/0ca43d787fe3d0b947e27a59e18ec7db/0000000000005.0",
        "backups/fbd251dae9e2ce497419da18ddcc04f2/0000000000006.0",
        "catalog/0000000000005/00000002.0",
        "data/0000000000005/00000000.0",
        "recipe/0000000000005/00000001.0",
        "mirror/0000000000005/00000001.0",
        "mirror/0000000000006/00000000.0",
        "small/0000000000006/00000000.0",
        "sessions/0000000000005/claim",
        "sessions/0000000000005/committed",
        "sessions/0000000000006/claim",
        "sessions/0000000000006/committed",
    );
    OBJECTS
        .iter()
        .map(|(name, bytes)| (*name, bytes.to_vec()))
        .collect()
}

/// Of each backup, its number, and the digest of its stream.
const BACKUPS: [(&str, u128); 2] = [
    ("5", 0xc1fc_3969_c019_ebeb_4acb_701f_8ff0_f1f5),
    ("6", 0x7066_b321_6da8_5215_1144_9a27_9883_dea8),
];

/// Reads the store.
pub(super) fn read() -> Done {
    read_from(objects())
}

#[derive(Default)]
struct Gathered(Vec<u8>);

impl Output for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.0.resize(self.0.len() + len, 0);
        Ok(())
    }
}

fn read_from(objects: Vec<(&'static str, Vec<u8>)>) -> Done {
    let wrong = |what: String| Stop::failed(what, MACHINE);
    let storage = MemoryStorage::new();
    for (name, bytes) in objects {
        let name = ObjectName::new(name).map_err(|error| wrong(error.to_string()))?;
        storage.put(&name, &[&bytes])?;
    }
    let env = Env::system(Arc::new(storage));
    let failed = |error: crate::Error| wrong(format!("a store of format 1: {error}"));
    let options = OpenOptions::default().pin_reads(false);
    let credential = Credential::password("correct horse");
    let store = Store::open(&env, &credential, &options).map_err(failed)?;
    let report = store
        .check(ReadData::Share(1.0), &Monitor::default())
        .map_err(failed)?;
    if let Some(finding) = report.findings.first() {
        let (object, what) = (&finding.object, &finding.what);
        return Err(wrong(format!("a store of format 1: {object}: {what}")));
    }
    let mut bytes = 0;
    for (id, expected) in BACKUPS {
        let snapshot = store.find(id, &Filter::default()).map_err(failed)?;
        let mut output = Gathered::default();
        let assembling = AssembleOptions::default();
        store
            .dump(&snapshot, None, &mut output, assembling, &Monitor::default())
            .map_err(failed)?;
        if wire::digest(&output.0) != expected {
            return Err(wrong(format!(
                "backup {id} of a store of format 1 has other bytes than it had"
            )));
        }
        bytes += output.0.len();
    }
    Ok(format!(
        "2 backups of format 1 are read as they were written ({})",
        types::ByteLen::new(bytes as u64)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_read_and_any_flipped_bit_is_noticed() {
        let whole = read().unwrap();
        assert!(whole.contains("2 backups"), "{whole}");
        for damaged in ["data/", "small/", "backups/", "catalog/"] {
            let mut objects = objects();
            // The mirrors would heal what has one.
            objects.retain(|(name, _)| !name.starts_with("mirror/"));
            for (name, bytes) in &mut objects {
                if name.starts_with(damaged) {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                }
            }
            match read_from(objects) {
                Err(Stop::Failed { what, .. }) => assert!(what.contains("format 1"), "{what}"),
                done => panic!("{damaged}: {done:?}"),
            }
        }
    }
}
