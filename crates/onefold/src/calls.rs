//! Operations as values, so that a server can run them for a client: requests, and their reports.
//!
//! Both travel as JSON. A request with a field that the server does not know is refused: an
//! operation must not do less, or more, than its client has asked for. A client ignores fields of a
//! report that it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use types::SessionId;

use crate::check::{CheckReport, ReadData};
use crate::error::Result;
use crate::forget::{ForgetReport, ForgetRequest};
use crate::monitor::Monitor;
use crate::revise::{Held, HoldEnd, Retagged, TagChange, Which};
use crate::scope::Scope;
use crate::stats::BackupLayout;
use crate::store::Store;

/// An operation that runs where the store is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::forget`].
    Forget(ForgetRequest),
    /// [`Store::hold`].
    Hold {
        /// The backups: ids, or `latest`.
        ids: Vec<String>,
        /// When the hold ends. `None` ends it now.
        end: Option<HoldEnd>,
    },
    /// [`Store::tag`].
    Tag {
        /// The backups.
        which: Which,
        /// The change.
        change: TagChange,
    },
    /// [`Store::check`].
    Check {
        /// How deep.
        read_data: ReadData,
    },
    /// [`Store::layouts`].
    Layouts(Vec<SessionId>),
}

/// The report of a [`Call`], of the same variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Report {
    /// Of [`Call::Forget`].
    Forget(ForgetReport),
    /// Of [`Call::Hold`].
    Hold(Held),
    /// Of [`Call::Tag`].
    Tag(Vec<Retagged>),
    /// Of [`Call::Check`].
    Check(CheckReport),
    /// Of [`Call::Layouts`].
    Layouts(Vec<BackupLayout>),
}

impl Call {
    /// Runs it within a part of the store.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn run(&self, store: &Store, scope: &Scope, monitor: &Monitor) -> Result<Report> {
        Ok(match self {
            Self::Forget(request) => Report::Forget(store.forget_within(scope, request, monitor)?),
            Self::Hold { ids, end } => Report::Hold(store.hold_within(scope, ids, *end)?),
            Self::Tag { which, change } => Report::Tag(store.tag_within(scope, which, change)?),
            Self::Check { read_data } => Report::Check(store.check_within(scope, *read_data, monitor)?),
            Self::Layouts(ids) => {
                // In the order of the request.
                let places: BTreeMap<_, _> = ids.iter().rev().zip((0..ids.len()).rev()).collect();
                let mut all = store.snapshots()?.snapshots;
                all.retain(|snapshot| places.contains_key(&snapshot.id) && scope.has(&snapshot.backup));
                all.sort_by_key(|snapshot| places[&snapshot.id]);
                let streams = all.iter().flat_map(|snapshot| &snapshot.backup.streams);
                monitor.set_total(streams.map(|stream| stream.len).sum());
                Report::Layouts(store.layouts(&all, monitor)?)
            }
        })
    }
}
