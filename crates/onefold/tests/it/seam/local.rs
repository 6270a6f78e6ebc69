//! Sessions of a store in this process.

use std::io::Read;

use container::Containers;
use crypto::Credential;
use format::manifest::BackupTotals;
use ingest::Granularity;
use ingest::conformance::{Begun, Host};
use ingest::{About, BackupSession, IngestError, IngestOptions, Stream};
use object::config;
use onefold::repository::{Beginning, ParentChoice};
use onefold::{BackupOptions, HostedBackup, Layout, SeriesName, Store};
use recipe::{NodeCache, StreamBytes, TreeRoot};
use types::{SessionId, UnixNanos};

use crate::common::{How, Process, tiny};

/// How a store's series refers to what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Referring {
    /// To chunks.
    Chunks,
    /// To chunks of containers that hold enough: the store waits for a window.
    Capped,
    /// To segments.
    Segments,
}

pub(crate) struct LocalHost {
    pub(crate) store: Store,
    machine: Process,
    referring: Referring,
}

impl LocalHost {
    pub(crate) fn new(machine: &Process, referring: Referring) -> Self {
        let mut options = tiny();
        if referring == Referring::Segments {
            options.series.layout = Some(Layout::Hybrid);
            options.series.segment_bytes = Some(64 << 10);
        }
        machine.try_init(&options).unwrap();
        Self::on(machine, referring)
    }

    pub(crate) fn on(machine: &Process, referring: Referring) -> Self {
        Self {
            store: machine.open(),
            machine: machine.clone(),
            referring,
        }
    }

    pub(crate) fn host(&self, streams: Vec<Stream>, upon: &[SessionId]) -> Result<HostedBackup, IngestError> {
        let options = self.backup_options();
        let how = Beginning::new(&options, Self::name(), streams);
        let hosted = self.store.host(&how.parents(ParentChoice::Named(upon)));
        hosted.map_err(|error| IngestError::Connection(error.into()))
    }

    fn how(&self) -> How {
        match self.referring {
            Referring::Capped => How::capped(),
            Referring::Chunks | Referring::Segments => How::plain(),
        }
    }

    pub(crate) fn backup_options(&self) -> BackupOptions {
        self.how().options()
    }

    fn name() -> SeriesName {
        SeriesName {
            host: b"host".to_vec(),
            paths: vec![b"/suite".to_vec()],
        }
    }
}

struct LocalBackup(HostedBackup);

impl Begun for LocalBackup {
    fn session(&self) -> &dyn BackupSession {
        self.0.session()
    }

    fn parents(&self) -> Vec<Vec<TreeRoot>> {
        self.0.parents()
    }
}

impl Host for LocalHost {
    fn begin(&self, streams: Vec<Stream>, upon: &[SessionId]) -> Result<Box<dyn Begun + '_>, IngestError> {
        Ok(Box::new(LocalBackup(self.host(streams, upon)?)))
    }

    fn options(&self) -> IngestOptions {
        self.how().ingest
    }

    fn granularity(&self) -> Granularity {
        match self.referring {
            Referring::Segments => Granularity::Segment { avg_bytes: 64 << 10 },
            Referring::Chunks | Referring::Capped => Granularity::Chunk,
        }
    }

    fn about(&self, counted: BackupTotals) -> About {
        About {
            name: Self::name(),
            source_time: UnixNanos::new(1),
            elapsed_nanos: 1,
            user: b"user".to_vec(),
            program: "the suite".to_owned(),
            tags: vec!["tagged".to_owned()],
            only_if_changed: false,
            hold_until: None,
            origin: None,
            counted,
        }
    }

    fn backups(&self) -> Vec<SessionId> {
        let list = self.store.snapshots().unwrap();
        list.snapshots.iter().map(|snapshot| snapshot.id).collect()
    }

    fn read(&self, backup: SessionId, stream: usize) -> Vec<u8> {
        let snapshot = crate::common::snapshot(&self.store, backup);
        let root = TreeRoot::from(&snapshot.backup.streams[stream]);
        let mut bytes = Vec::new();
        let opened = config::open(&self.machine.env, Credential::NoPassword).unwrap();
        let containers = Containers::new(self.machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
        let nodes = NodeCache::new(containers, 8 << 20);
        let mut reader = StreamBytes::new(&nodes, &root, 0, root.len).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    }
}
