//! What backups need of damaged containers.

use format::names;
use session::{ManifestList, Session, SessionListing};
use types::ContainerId;

use crate::context::Context;
use crate::error::Result;
use crate::marks::InForce;
use crate::slots::{SlotMap, SlotSet};

/// The slots of these containers that backups need, if the marks in force are enough to tell. They
/// are if all can be read, they cover every backup, and no other session ran or has begun since
/// that may refer to more.
pub(crate) fn needed(
    context: &Context<'_>,
    session: &Session,
    listing: &SessionListing,
    in_force: &InForce,
    ids: &[ContainerId],
) -> Result<Option<SlotMap>> {
    let mut others = context.running(&listing.table)?;
    others.remove(&session.id());
    if !others.is_empty() || !in_force.missing.is_empty() || !covers_all(&listing.manifests, in_force) {
        return Ok(None);
    }
    if !session.is_alone_since(&listing.table)? {
        return Ok(None);
    }
    let mut needed = SlotMap::default();
    for (group, stored) in &in_force.groups {
        let live = stored.live(context.sealer, *group)?;
        let mut cursor = live.cursor();
        while let Some((container, ranges)) = cursor.next() {
            if ids.binary_search(&container).is_err() {
                continue;
            }
            if ranges.is_empty() {
                needed.add(container, &SlotSet::all());
            }
            for range in ranges {
                needed.insert(container, *range);
            }
        }
    }
    Ok(Some(needed))
}

/// Whether marks cover every backup as it is now. A backup that committed after the plan is neither
/// marked nor running.
fn covers_all(list: &ManifestList, in_force: &InForce) -> bool {
    let covers = in_force.covers();
    let mut entries = list.entries.iter().filter(|entry| entry.backup().is_some());
    let mut as_covered = list.as_covered.iter();
    entries.all(|entry| {
        let known = covers.get(&entry.session());
        known.is_some_and(|known| {
            known.revision == entry.stored.revision && known.digest == entry.stored.digest
        })
    }) && as_covered.all(|backup| covers.get(&backup.covered.session) == Some(&backup.covered))
        && list.damaged.iter().all(|object| {
            let of = names::parse_manifest(&object.name);
            of.is_some_and(|(_, session, _)| covers.contains_key(&session))
        })
}
