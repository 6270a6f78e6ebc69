//! The operations on any repository: backing up, listing, restoring, forgetting and the rest.
//!
//! They run where they are called. The [`Repository`] says where the
//! store is. [`Store`](crate::Store) has the same operations as methods.

use crate::calls::{Call, Report};
use crate::check::{CheckReport, ReadData};
use crate::error::{Error, Result};
use crate::forget::{ForgetReport, ForgetRequest};
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::revise::{Held, HoldEnd, Retagged, TagChange, Which};
use crate::snapshots::Snapshot;
use crate::stats::BackupLayout;

pub use crate::archive::dump_archive;
pub use crate::backup::{back_up_stream, back_up_tree};
pub use crate::copy::copy;
pub use crate::diff::diff;
pub use crate::dump::dump;
pub use crate::find::find_entries;
pub use crate::repository::retried;
pub use crate::restore::{list_entries, restore};
pub use crate::restore_preview::preview_restore;
pub use crate::stored::{stored_catalog, stored_node};

/// The functions for calls, each with its own request and report.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $report:ident($result:ty) = $call:expr;)+) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// As the method of [`Store`](crate::Store) with the same name; of the connection.
            pub fn $name(
                repository: &dyn Repository,
                $($arg: $kind,)*
                monitor: &Monitor,
            ) -> Result<$result> {
                match repository.call(&$call, monitor)? {
                    Report::$report(report) => Ok(report),
                    _ => Err(Error::Elsewhere {
                        is_broken: false,
                        why: concat!("the server answered ", stringify!($name), " with another report").to_owned(),
                    }),
                }
            }
        )+
    };
}

functions! {
    /// Forgets backups.
    forget(request: &ForgetRequest) -> Forget(ForgetReport) = Call::Forget(request.clone());
    /// Holds backups until a time, or ends their holds.
    hold(ids: &[String], end: Option<HoldEnd>) -> Hold(Held) = Call::Hold { ids: ids.to_vec(), end };
    /// Changes the tags of backups.
    tag(which: &Which, change: &TagChange) -> Tag(Vec<Retagged>) =
        Call::Tag { which: which.clone(), change: change.clone() };
    /// Checks the backups, and everything that they need.
    check(read_data: ReadData) -> Check(CheckReport) = Call::Check { read_data };
    /// The layout of these backups.
    layouts(snapshots: &[Snapshot]) -> Layouts(Vec<BackupLayout>) =
        Call::Layouts(snapshots.iter().map(|snapshot| snapshot.id).collect());
}
