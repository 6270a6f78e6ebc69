//! Reads a part of a file in a backup, as from a file.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;

use onefold::{
    BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions, Store, TreeOptions,
};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let path = place.path().join("log");
    let lines: String = (0..100_000).map(|line| format!("line {line:06}\n")).collect();
    fs::write(&path, lines)?;

    let env = Env::create_local(place.path().join("store"))?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    let monitor = Monitor::default();
    let tree = TreeOptions::new([path.clone()]);
    store.backup_tree(&BackupOptions::default(), &tree, &monitor, &mut |_| {})?;

    let snapshot = store.find("latest", &Filter::default())?;
    let mut file = store.open_file(&snapshot, Some(path.as_os_str().as_bytes()), &monitor)?;
    println!("the file has {} bytes", file.len());
    // Only the chunks around the position are read from the store.
    file.seek(SeekFrom::Start(70_000 * 12))?;
    let mut line = [0; 11];
    file.read_exact(&mut line)?;
    assert_eq!(&line, b"line 070000");
    file.seek(SeekFrom::End(-12))?;
    file.read_exact(&mut line)?;
    assert_eq!(&line, b"line 099999");
    // A prune by another process removes nothing of an open file.
    file.close(&monitor);
    Ok(())
}
