//! Backs up the bytes of a reader, such as the output of a database, and reads them back.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::Read;
use std::path::Path;

use onefold::{
    BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions, ReaderSource, Store,
    StreamOptions,
};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let env = Env::create_local(place.path())?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;

    let dump = b"INSERT INTO letters VALUES ('Dear reader');\n".repeat(10_000);
    // Any value that is `Read`: a pipe, a socket, a slice.
    let mut source = ReaderSource(dump.as_slice());
    let options = BackupOptions::default().host("database");
    let monitor = Monitor::default();
    let report = store.backup_stream(
        &options,
        Path::new("letters.sql"),
        &StreamOptions::default(),
        &mut source,
        &monitor,
    )?;
    println!(
        "{} bytes take {} in the store",
        report.totals.bytes_logical, report.totals.bytes_stored
    );

    let snapshot = store.find("latest", &Filter::default())?;
    let mut stream = store.open_file(&snapshot, None, &monitor)?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    stream.close(&monitor);
    assert_eq!(back, dump);
    Ok(())
}
