//! Hooks of rewritten containers.

use types::{ContainerId, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::sweep;

/// Publishes hooks of rewritten containers, so that look-ups find these. A container may have lost
/// the fingerprints that led to it. A copied chunk has a newer place than its old one. `by` is the
/// session that rewrote them.
pub(crate) fn hook_again(context: &Context<'_>, by: SessionId, rewritten: &[ContainerId]) -> Result<()> {
    let Some(index) = context.index else { return Ok(()) };
    let mut views = Vec::with_capacity(rewritten.len());
    for id in rewritten {
        views.extend(sweep::catalog(context.containers, *id, context.progress)?);
    }
    if !views.is_empty() {
        index.add_rewritten(by, views.iter().map(AsRef::as_ref))?;
    }
    Ok(())
}
