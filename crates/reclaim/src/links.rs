//! Resolves the streams that archival backups refer forward to (R2).

use std::collections::HashMap;

use recipe::{StreamName, StreamRoots, TreeRoot};
use session::ChainLink;
use types::{SeriesId, SessionId};

/// The streams of the backups in some chains, each in one revision.
#[derive(Debug, Default)]
pub struct Links {
    streams: HashMap<SessionId, (SeriesId, Vec<TreeRoot>)>,
}

impl Links {
    /// Collects these links.
    #[must_use]
    pub fn of(links: Vec<ChainLink>) -> Self {
        let streams = links.into_iter().map(|link| {
            let roots = link.backup.streams.iter().map(TreeRoot::from).collect();
            (link.session, (link.series, roots))
        });
        Self {
            streams: streams.collect(),
        }
    }
}

impl StreamRoots for Links {
    fn root(&self, name: StreamName) -> Option<TreeRoot> {
        let (series, streams) = self.streams.get(&name.backup)?;
        let root = streams.get(usize::from(name.stream)).copied();
        root.filter(|_| *series == name.series)
    }
}
