//! Forgets a backup, plans a prune, looks at the plan, and executes it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;

use onefold::{
    BackupOptions, Credential, Env, ForgetRequest, InitOptions, Monitor, OpenOptions, PruneLimits,
    PruneOptions, PruneUnused, Store, TreeOptions,
};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let source = place.path().join("file");
    let env = Env::create_local(place.path().join("store"))?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    let monitor = Monitor::default();
    let tree = TreeOptions::new([source.clone()]);
    for version in 1_u8..=2 {
        let bytes: Vec<u8> = (0..1_000_000_u32)
            .map(|n| (n / 7 % 251) as u8 ^ version)
            .collect();
        fs::write(&source, bytes)?;
        store.backup_tree(&BackupOptions::default(), &tree, &monitor, &mut |_| {})?;
    }

    // Forgetting is final, and frees no space yet.
    let forgotten = store.forget(&ForgetRequest::named(["1"]), &monitor)?;
    println!("forgotten: {:?}", forgotten.forgotten);

    let limits = PruneLimits::default().unused_max(PruneUnused::Bytes(0));
    let options = PruneOptions::default().limits(limits);
    let plan = store.plan_prune(&options, &monitor)?;
    println!(
        "would free {} bytes, and copy {}",
        plan.preview().bytes_freed,
        plan.preview().bytes_copied
    );
    let planned = plan.preview().containers_removed;
    let (report, warnings) = plan.execute(&monitor)?;
    for warning in warnings {
        println!("{}: {warning}", warning.kind());
    }
    println!("freed {} bytes", report.bytes_freed());
    assert_eq!(report.containers_removed, planned);
    Ok(())
}
