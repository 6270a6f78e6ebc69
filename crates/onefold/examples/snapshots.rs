//! Lists backups, and compares the files of two.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::fs;

use onefold::{
    BackupOptions, Credential, EntryKind, Env, InitOptions, Monitor, OpenOptions, Snapshot, Store,
    TreeOptions,
};

/// Length and time of each file, by path.
type Files = BTreeMap<Vec<u8>, (u64, onefold::FileTime)>;

fn files(store: &Store, snapshot: &Snapshot) -> Result<Files, onefold::Error> {
    let mut files = Files::new();
    store.list_entries(snapshot, &[], &Monitor::default(), |entry| {
        if let EntryKind::File { len, .. } = entry.kind {
            files.insert(entry.path.clone(), (len, entry.mtime));
        }
        Ok::<_, onefold::Error>(())
    })?;
    Ok(files)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let source = place.path().join("source");
    fs::create_dir(&source)?;
    fs::write(source.join("kept"), "as it was")?;
    fs::write(source.join("gone"), "soon")?;

    let env = Env::create_local(place.path().join("store"))?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    let tree = TreeOptions::new([source.clone()]);
    let back_up = || store.backup_tree(&BackupOptions::default(), &tree, &Monitor::default(), &mut |_| {});
    back_up()?;
    fs::remove_file(source.join("gone"))?;
    fs::write(source.join("new"), "hello")?;
    back_up()?;

    let list = store.snapshots()?;
    for snapshot in &list.snapshots {
        let totals = &snapshot.backup.totals;
        println!("backup {}: {} bytes", snapshot.id, totals.bytes_logical);
    }
    let [before, after] = list.snapshots.as_slice() else {
        return Err("two backups were made".into());
    };
    let (before, after) = (files(&store, before)?, files(&store, after)?);
    let mut changes = Vec::new();
    for path in before
        .keys()
        .chain(after.keys().filter(|path| !before.contains_key(*path)))
    {
        let sign = match (before.get(path), after.get(path)) {
            (Some(_), None) => '-',
            (None, Some(_)) => '+',
            (old, new) if old != new => 'M',
            _ => continue,
        };
        changes.push(sign);
        println!("{sign} {}", String::from_utf8_lossy(path));
    }
    assert_eq!(changes, ['-', '+']);
    Ok(())
}
