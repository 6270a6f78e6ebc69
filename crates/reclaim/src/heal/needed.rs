//! What backups need of damaged containers.

use session::{Census, Session};
use types::ContainerId;

use crate::error::Result;
use crate::marks::InForce;
use crate::prune::Context;
use crate::slots::{SlotMap, SlotSet};

/// The slots of these containers that backups need, if marks in force say it: all can be read, and
/// no other session ran that may refer to more.
pub(crate) fn needed(
    context: &Context<'_>,
    session: &Session,
    census: &Census,
    in_force: &InForce,
    ids: &[ContainerId],
) -> Result<Option<SlotMap>> {
    let mut others = context.running(&census.roster)?;
    others.remove(&session.id());
    if !others.is_empty() || !in_force.missing.is_empty() {
        return Ok(None);
    }
    let mut needed = SlotMap::default();
    for (group, stored) in &in_force.groups {
        let live = stored.live(context.sealer, *group)?;
        let mut cursor = live.cursor();
        while let Some((container, ranges)) = cursor.next() {
            if !ids.contains(&container) {
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
