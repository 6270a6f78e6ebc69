//! Watches a backup, stops another one, and tells warnings apart.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onefold::{
    BackupOptions, Credential, Env, ErrorKind, InitOptions, Monitor, OpenOptions, Store, TreeOptions, Warning,
};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let source = place.path().join("file");
    fs::write(&source, vec![7; 4 << 20])?;
    let env = Env::create_local(place.path().join("store"))?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    let (options, tree) = (BackupOptions::default(), TreeOptions::new([source]));

    // A monitor belongs to one operation. Any thread may read it meanwhile.
    let monitor = Monitor::default();
    let is_done = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                println!("{} bytes so far", monitor.counters.bytes_logical.get());
                thread::park_timeout(Duration::from_millis(100));
            }
        });
        let report = store.backup_tree(&options, &tree, &monitor, &mut |_| {});
        is_done.store(true, Ordering::Release);
        watcher.thread().unpark();
        report
    })?;

    // The backup is safe, whatever the warnings say.
    for warning in &report.warnings {
        match warning {
            Warning::ContainerDamaged { container } => println!("run a check: {container} is damaged"),
            other => println!("{}: {other}", other.kind()),
        }
    }

    // The flag stops an operation at its next safe moment.
    let stop = Arc::new(AtomicBool::new(true));
    let stopped = store.backup_tree(&options, &tree, &Monitor::new(stop), &mut |_| {});
    assert_eq!(
        stopped.map_err(|error| error.kind()).err(),
        Some(ErrorKind::Interrupted)
    );
    Ok(())
}
