//! The streams of a backup.

use format::manifest::{Backup, StreamRole};
use recipe::TreeRoot;

/// The root of the stream with this role.
pub(crate) fn role(backup: &Backup, role: StreamRole) -> Option<TreeRoot> {
    backup
        .streams
        .iter()
        .find(|stream| stream.role == role)
        .map(TreeRoot::from)
}
