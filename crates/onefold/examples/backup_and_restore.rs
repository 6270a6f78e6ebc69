//! Backs up a folder, and restores it to another.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;

use onefold::{
    BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions, RestoreRequest, Store,
    TreeOptions,
};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source)?;
    fs::write(source.join("letter"), "Dear reader")?;

    // Make a store once ...
    let env = Env::create_local(place.path().join("store"))?;
    let credential = Credential::password("a long sentence that nobody guesses");
    Store::init(&env, &credential, &InitOptions::default(), None)?;
    // ... and open it for each use.
    let store = Store::open(&env, &credential, &OpenOptions::default())?;

    let options = BackupOptions::default()
        .host("laptop")
        .tags(vec!["first".to_owned()]);
    let tree = TreeOptions::new([source.clone()]);
    // Entries that cannot be read are reported one by one. The rest is backed up.
    let report = store.backup_tree(&options, &tree, &Monitor::default(), &mut |fault| {
        println!("not backed up: {fault}");
    })?;
    println!("backup {}: {} new files", report.id, report.totals.files_new);

    let snapshot = store.find("latest", &Filter::default())?;
    let restored = store.restore(
        &snapshot,
        &target,
        &RestoreRequest::default(),
        &Monitor::default(),
        &mut |fault| println!("not restored: {fault}"),
    )?;
    println!("restored {} files", restored.files);
    // The paths of the backup are made below the target.
    let letter = target.join(source.join("letter").strip_prefix("/")?);
    assert_eq!(fs::read_to_string(letter)?, "Dear reader");
    Ok(())
}
