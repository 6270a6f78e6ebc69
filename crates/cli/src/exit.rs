//! Reports why a command failed.

use cli_support::{Code, Output, code_of, message_of};
use simulate::SimulateError;

use crate::args::{Command, Volume};
use crate::volumes::{Kind, Refusal};

/// The message after an interruption: what was interrupted, and the state of the store.
fn interrupted(command: &Command, error: &anyhow::Error) -> Option<String> {
    const UNCHANGED: &str = "the store is as it was";
    const PRUNING: &str =
        "nothing that a backup needs is gone, and the next `onefold prune` finishes what was begun";
    let is_pruning = error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(onefold::Error::Reclaim(_))));
    let (what, left) = match command {
        Command::Backup(backup) if backup.dry_run => ("the dry run", UNCHANGED),
        Command::Backup(_) => (
            "the backup",
            "there is none of it yet; what was stored so far is kept, and the next backup of the same host and paths goes on \
             from there",
        ),
        Command::Restore(restore) if restore.dry_run => ("the dry run", "nothing was restored"),
        Command::Restore(_) => (
            "the restore",
            "what it had restored by then is whole, and the rest is missing; run it again to have all",
        ),
        Command::Copy(copy) if copy.dry_run => ("the dry run", UNCHANGED),
        Command::Copy(_) => (
            "the copy",
            "what was copied before is whole, and the next `onefold copy` goes on from there",
        ),
        Command::Dump(_) => ("the dump", "its output ends in the middle"),
        Command::Diff(_) => ("the comparison", "its output ends in the middle"),
        Command::Find(_) => ("the search", "its output ends in the middle"),
        Command::Check(_) => (
            "the check",
            "it did not look at everything, and so says nothing of the store; the store is as it was, and may have new lists of damage",
        ),
        Command::Stats(_) => ("the count", UNCHANGED),
        Command::Forget(forget) if forget.dry_run => ("the dry run", UNCHANGED),
        Command::Prune(prune) if prune.dry_run => ("the dry run", UNCHANGED),
        Command::Optimize(optimize) if optimize.dry_run => ("the dry run", UNCHANGED),
        Command::Forget(_) if !is_pruning => (
            "forgetting",
            "some of the backups may be forgotten and the others are not, which `onefold snapshots` shows; run it again for the \
             rest",
        ),
        Command::Forget(_) => ("the prune after forgetting", PRUNING),
        Command::Prune(_) => ("the prune", PRUNING),
        Command::Optimize(_) => (
            "optimize",
            "each backup is as it was or as it was to be, and the next `onefold optimize` or `onefold prune` finishes what was \
             begun",
        ),
        Command::SelfTest(_) => (
            "the self-test",
            "it deleted what it had written, unless `clean up` above names what is left; what it had not tried yet is not tested",
        ),
        Command::Analyze(_) => ("the analysis", "nothing was written"),
        Command::Volume(Volume::Drain { .. }) => (
            "the drain",
            "blocks that it has shared stay shared, and the next drain continues",
        ),
        Command::Volume(Volume::Remove { .. }) => (
            "freeing of space",
            "the volume is removed, and the rest of its space comes back while the pool is served",
        ),
        _ => return None,
    };
    Some(format!("{what} was interrupted: {left}"))
}

/// Prints why a command failed, and returns the exit code.
pub(crate) fn report(output: Output, command: &Command, error: &anyhow::Error) -> Code {
    let is_stopped = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(SimulateError::Interrupted))
    };
    let refused = error.chain().find_map(|cause| cause.downcast_ref::<Refusal>());
    let code = match refused.map(|refusal| refusal.kind) {
        _ if error.chain().any(is_stopped) => Code::Interrupted,
        Some(Kind::Interrupted) => Code::Interrupted,
        Some(Kind::NoPool) => Code::NoStore,
        _ => code_of(error),
    };
    let message = match code {
        Code::Interrupted => interrupted(command, error).unwrap_or_else(|| message_of(error)),
        _ => message_of(error),
    };
    cli_support::report(output, "onefold", code, &message);
    code
}
