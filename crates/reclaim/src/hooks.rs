//! Hooks of rewritten containers.

use types::{ContainerId, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::sweep;

/// Look-ups find containers that were rewritten, which may have lost the fingerprints that led to
/// them, and what was copied where it is now, which is newer than where it was. `by` is the session
/// that rewrote them.
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
