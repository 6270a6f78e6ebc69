//! Finishes the epoch that an earlier run left open.

use session::{HeldLease, Session};
use tracing::info;

use crate::context::Context;
use crate::epoch;
use crate::epochs::Epochs;
use crate::error::Result;
use crate::log::PRUNE;
use crate::options::{PruneOptions, PruneReport};
use crate::plan::{Limits, Unused};

/// The most open epochs: the one found, and the one that may follow it on a full disk.
const OPEN_MAX: usize = 2;

/// Finishes the open epoch.
pub(crate) fn finish_open(
    context: &Context<'_>,
    options: &PruneOptions,
    (session, lease): (&Session, &HeldLease),
    report: &mut PruneReport,
) -> Result<()> {
    for _ in 0..OPEN_MAX {
        let epochs = Epochs::list(context.sealer)?;
        let Some(epoch) = epochs.open() else { break };
        if epochs.is_illegible(context.sealer, epoch)? {
            break;
        }
        let leaving;
        let options = if report.given_up.is_empty() {
            options
        } else {
            leaving = PruneOptions {
                limits: Limits {
                    unused_max: Unused::Unlimited,
                    ..options.limits
                },
                ..options.clone()
            };
            &leaving
        };
        info!(target: PRUNE, %epoch, "finishes an epoch that was left open");
        epoch::epoch(context, options, session, lease, (epoch, None), report)?;
    }
    Ok(())
}
