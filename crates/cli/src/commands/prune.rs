//! `onefold prune`, and the prune after `forget --prune`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, bytes, count};
use cli_support::progress::{self, Status};
use onefold::{Monitor, PruneOptions, PrunePreview, PruneReport, SessionId, Store};
use serde::Serialize;

use crate::args::{Global, Prune, PruneLimits};

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    bytes_freed: u64,
    bytes_copied: u64,
    bytes_left_dead: u64,
    containers_removed: u64,
    containers_compacted: u64,
    containers_trimmed: u64,
    nodes_read: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Kept>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_stored: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sessions_expired: Vec<u64>,
    /// Containers that were to be rewritten and are damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Unhealed>,
    /// Damaged containers that got slots back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    healed: Vec<Healed>,
    /// Damaged containers that got none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unhealed: Vec<Unhealed>,
    /// Containers that stay as they are for want of room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    given_up: Vec<String>,
    /// Second copies that were missing.
    #[serde(skip_serializing_if = "is_zero")]
    mirrors_made: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct Unhealed {
    container: String,
    why: String,
}

impl Unhealed {
    fn all<T: ToString>(containers: &[(T, String)]) -> Vec<Self> {
        let each = containers.iter().map(|(container, why)| Self {
            container: container.to_string(),
            why: why.clone(),
        });
        each.collect()
    }
}

#[derive(Serialize)]
struct Healed {
    container: String,
    slots: u64,
    left: u64,
}

/// A forgotten backup that stays stored, and the backup that refers forward to it.
#[derive(Serialize)]
pub(crate) struct Kept {
    id: u64,
    by: u64,
}

impl Kept {
    pub(crate) fn all(kept: &BTreeMap<SessionId, SessionId>) -> Vec<Self> {
        let each = kept.iter();
        each.map(|(id, by)| Self {
            id: id.get(),
            by: by.get(),
        })
        .collect()
    }
}

/// Prints which forgotten backups stay stored, and until when.
pub(crate) fn say_kept(kept: &BTreeMap<SessionId, SessionId>, would: bool, output: Output) -> Result<()> {
    for (id, by) in kept {
        output.line(format!(
            "forgotten backup {id} {} stored, because backup {by} refers to its data. Unless backup {by} is held, \
             `onefold optimize` rewrites or forgets it, and the next prune then frees the space",
            if would { "would stay" } else { "stays" }
        ))?;
    }
    Ok(())
}

pub(crate) fn run(global: &Global, args: &Prune, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    let options = options(&args.limits)
        .all(args.all)
        .allow_missing_manifests(args.allow_missing_manifests);
    if args.dry_run {
        let plan = watched("prune", output, |monitor| store.plan_prune(&options, monitor))?;
        for warning in plan.warnings() {
            output.warning(warning, &warning.to_string())?;
        }
        say_preview(plan.preview(), output)?;
        return Ok(Code::Success);
    }
    prune(&store, &options, output)
}

/// The library's options for these limits.
pub(crate) fn options(limits: &PruneLimits) -> PruneOptions {
    PruneOptions::default().limits(limits.limits())
}

/// Computes what a prune would do if these backups were forgotten.
pub(crate) fn preview(
    store: &Store,
    options: &PruneOptions,
    forget: &BTreeSet<SessionId>,
    output: Output,
) -> Result<PrunePreview> {
    let (preview, warnings) = watched("prune", output, |monitor| {
        store.preview_prune(options, forget, monitor)
    })?;
    for warning in warnings {
        output.warning(&warning, &warning.to_string())?;
    }
    Ok(preview)
}

/// Prints the preview.
pub(crate) fn say_preview(preview: &PrunePreview, output: Output) -> Result<()> {
    output.line(format!(
        "would free {}: {}; would copy {}, and leave {} unused",
        bytes(preview.bytes_freed),
        fates(
            [
                preview.containers_removed,
                preview.containers_compacted + preview.containers_trimmed,
            ],
            &WOULD
        ),
        bytes(preview.bytes_copied),
        bytes(preview.bytes_left_dead),
    ))?;
    say_kept(&preview.kept, true, output)?;
    output.object(&Summary {
        message_type: "prune_summary",
        dry_run: true,
        bytes_freed: preview.bytes_freed,
        bytes_copied: preview.bytes_copied,
        bytes_left_dead: preview.bytes_left_dead,
        containers_removed: preview.containers_removed,
        containers_compacted: preview.containers_compacted,
        containers_trimmed: preview.containers_trimmed,
        nodes_read: preview.nodes_read,
        kept: Kept::all(&preview.kept),
        bytes_stored: None,
        sessions_expired: Vec::new(),
        damaged: Vec::new(),
        healed: Vec::new(),
        unhealed: Vec::new(),
        given_up: Vec::new(),
        mirrors_made: 0,
    })?;
    Ok(())
}

/// Prunes, and prints the result.
pub(crate) fn prune(store: &Store, options: &PruneOptions, output: Output) -> Result<Code> {
    let (report, warnings) = watched("prune", output, |monitor| store.prune(options, monitor))?;
    for id in &report.sessions_expired {
        output.warn(format!(
            "ended session {id}, which was dead or did not answer. If it was making a backup, run that backup again"
        ))?;
    }
    for warning in warnings {
        output.warning(&warning, &warning.to_string())?;
    }
    for (container, why) in &report.damaged {
        output.warn(format!(
            "{container} stays as it is: {why}. Run `onefold check --read-data`, which names the files"
        ))?;
    }
    for container in &report.given_up {
        output.warn(format!(
            "{container} was not rewritten, because the disk has no room for it. Free some space, and run `onefold prune` again"
        ))?;
    }
    if report.mirrors_made > 0 {
        let made = count(report.mirrors_made, "second copy", "second copies");
        output.warn(format!(
            "made {made} of containers that an interrupted prune had left without one"
        ))?;
    }
    for (container, why) in &report.unhealed {
        output.warn(format!(
            "{container} stays damaged: {why}. `onefold check` names the backups that need it"
        ))?;
    }
    say(&report, output)?;
    let is_damaged = !report.damaged.is_empty()
        || !report.unhealed.is_empty()
        || report.healed.iter().any(|healed| healed.left > 0);
    Ok(if is_damaged { Code::Failure } else { Code::Success })
}

fn say(report: &PruneReport, output: Output) -> Result<()> {
    if report.bytes_deleted == 0 {
        output.line("nothing to reclaim")?;
    } else {
        output.line(format!(
            "freed {}: {}; copied {}",
            bytes(report.bytes_freed()),
            fates(
                [
                    report.containers_removed,
                    report.containers_compacted + report.containers_trimmed,
                ],
                &DID
            ),
            bytes(report.bytes_copied),
        ))?;
    }
    if report.bytes_left_dead > 0 {
        output.line(format!(
            "{} of about {} stay unused, in containers that backups still need in part. `onefold prune --max-unused 0` \
             rewrites these containers and frees this space",
            bytes(report.bytes_left_dead),
            bytes(report.bytes_stored)
        ))?;
    }
    if report.containers_trimmed > 0 {
        output.line(format!(
            "{} now with holes, which take no space on this disk. A copy of the store that keeps no holes takes this space \
             again; `onefold stats` says how much",
            count(
                report.containers_trimmed,
                "container keeps its length,",
                "containers keep their lengths,"
            )
        ))?;
    }
    say_kept(&report.kept, false, output)?;
    for healed in &report.healed {
        output.line(format!(
            "healed {} of {}. {} still damaged",
            count(healed.slots, "damaged chunk", "damaged chunks"),
            healed.container,
            count(healed.left, "chunk is", "chunks are")
        ))?;
    }
    output.object(&Summary {
        message_type: "prune_summary",
        dry_run: false,
        bytes_freed: report.bytes_freed(),
        bytes_copied: report.bytes_copied,
        bytes_left_dead: report.bytes_left_dead,
        containers_removed: report.containers_removed,
        containers_compacted: report.containers_compacted,
        containers_trimmed: report.containers_trimmed,
        nodes_read: report.nodes_read,
        kept: Kept::all(&report.kept),
        bytes_stored: Some(report.bytes_stored),
        sessions_expired: report.sessions_expired.iter().map(|id| id.get()).collect(),
        damaged: Unhealed::all(&report.damaged),
        healed: report
            .healed
            .iter()
            .map(|healed| Healed {
                container: healed.container.to_string(),
                slots: healed.slots,
                left: healed.left,
            })
            .collect(),
        unhealed: Unhealed::all(&report.unhealed),
        given_up: report.given_up.clone(),
        mirrors_made: report.mirrors_made,
    })?;
    Ok(())
}

/// Verbs for one and for several containers: for those that prune removes, and for those that lose
/// slots.
type Fates = [(&'static str, &'static str); 2];

const WOULD: Fates = [
    ("container would be deleted", "containers would be deleted"),
    ("would shrink", "would shrink"),
];
const DID: Fates = [
    ("container was deleted", "containers were deleted"),
    ("shrank", "shrank"),
];

/// Both counts, in words.
fn fates([gone, lessened]: [u64; 2], words: &Fates) -> String {
    let told = |n: u64, (one, many): (&str, &str)| count(n, one, many);
    format!("{}, {}", told(gone, words[0]), told(lessened, words[1]))
}

fn watched<T>(
    verb: &'static str,
    output: Output,
    work: impl FnOnce(&Monitor) -> onefold::Result<T>,
) -> Result<T> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    Ok(progress::beside(output, verb, &status, || work(&monitor))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_agree_with_numbers() {
        assert_eq!(
            fates([1, 1], &WOULD),
            "1 container would be deleted, 1 would shrink"
        );
        assert_eq!(
            fates([1234, 0], &WOULD),
            "1,234 containers would be deleted, 0 would shrink"
        );
        assert_eq!(fates([1, 2], &DID), "1 container was deleted, 2 shrank");
        assert_eq!(fates([0, 1], &DID), "0 containers were deleted, 1 shrank");
    }
}
