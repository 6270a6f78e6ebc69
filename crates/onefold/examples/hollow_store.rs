//! Makes a store of any number of containers without payload, to measure how long it takes to open
//! (`bench/open`). The store has names of containers, claims, manifests, and the index that the
//! backups would have left.
//!
//!     hollow_store FOLDER CONTAINERS BACKUPS
//!
//! The folder must exist. The store has no password. Containers are empty files: nothing can be
//! restored. A container stands for 16 MiB of new chunks of 8 KiB, which are drawn at random. Runs
//! are merged before each backup, as usual.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool that is run by hand"
)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crypto::Credential;
use env::Env;
use format::frame::ObjectKind;
use format::manifest::{Backup, BackupTotals, ContainerSpan, Manifest, SeriesName, StreamRole, StreamRoot};
use format::names;
use format::session::Claim;
use index::sampling::Anchors;
use index::{Hook, HookKind, Index, IndexOptions};
use object::{Sealer, config};
use onefold::{InitOptions, Store};
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, Level, Revision, SequenceNumber,
    SessionId, Slot, UnixNanos,
};

const CHUNKS_A_CONTAINER: u64 = 2048;
const CHUNKS_A_SEGMENT: u64 = 512;
const CHUNK_BYTES: u64 = 8 << 10;
const SERIES: u64 = 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, containers, backups] = arguments.as_slice() else {
        eprintln!("hollow_store FOLDER CONTAINERS BACKUPS");
        return ExitCode::from(2);
    };
    let numbers = containers.parse().ok().zip(backups.parse().ok());
    let made = numbers
        .ok_or_else(|| "CONTAINERS and BACKUPS are numbers".into())
        .and_then(|(containers, backups)| make(Path::new(folder), containers, backups));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// SplitMix64: as good as keyed hashes for this purpose.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fingerprint(&mut self) -> Fingerprint {
        let mut bytes = [0; Fingerprint::BYTES];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.next().to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }
}

fn make(folder: &Path, containers: u64, backups: u64) -> Result<(), Failure> {
    let env = Env::local(folder)?;
    let store = Store::init(&env, &onefold::Credential::None, &InitOptions::default(), None)?;
    let sealer = config::open(&env, Credential::NoPassword)?.sealer(&env);
    let options = IndexOptions {
        pending_bytes_max: 32 << 20,
        ..IndexOptions::default()
    };
    let index = Index::open(Arc::clone(&env.storage), store.id(), options)?;
    let mut draw = Draw(1);
    for n in 0..backups {
        let session = SessionId::new(n + 1)?;
        let count = containers * (n + 1) / backups - containers * n / backups;
        if index.wants_merge() {
            index.merge(&|| true, &|_| true)?;
        }
        let backup = one_backup(&env, &index, &mut draw, session, count)?;
        commit(&sealer, session, n, backup)?;
    }
    env.storage.barrier()?;
    let stats = index.stats();
    println!(
        "{containers} containers, {backups} backups; index: {} runs, {} hooks in {} bytes ({} resident), R {} and {}",
        stats.runs, stats.entries, stats.bytes, stats.resident_bytes, stats.rates.data, stats.rates.node
    );
    Ok(())
}

/// A session's containers and hooks.
fn one_backup(
    env: &Env,
    index: &Index,
    draw: &mut Draw,
    session: SessionId,
    count: u64,
) -> Result<Vec<ContainerSpan>, Failure> {
    let mut writer = index.session(session);
    let mut spans = Vec::new();
    let mut sequence = 0;
    let nodes = count * CHUNKS_A_CONTAINER / CHUNKS_A_SEGMENT;
    for (kind, containers, hooks) in [
        (ContainerKind::Data, count, CHUNKS_A_CONTAINER),
        (ContainerKind::Recipe, 1, nodes + 3),
    ] {
        let first = SequenceNumber::new(sequence)?;
        for _ in 0..containers {
            let id = ContainerId {
                session,
                kind,
                sequence: SequenceNumber::new(sequence)?,
            };
            sequence += 1;
            env.storage.put(&names::container(id, Generation::FIRST), &[])?;
            let of = if kind == ContainerKind::Data {
                HookKind::Data
            } else {
                HookKind::Node
            };
            let prints: Vec<Fingerprint> = (0..hooks).map(|_| draw.fingerprint()).collect();
            let anchors = Anchors::of(prints.iter().map(|print| (of, print)));
            for print in &prints {
                writer.add_hook(Hook::of(of, print, id, &anchors))?;
            }
        }
        if containers > 0 {
            spans.push(ContainerSpan {
                kind,
                first,
                count: u32::try_from(containers)?,
            });
        }
    }
    writer.publish(&[session])?;
    Ok(spans)
}

/// The claim and the manifest that a session leaves.
fn commit(
    sealer: &Sealer,
    session: SessionId,
    n: u64,
    containers: Vec<ContainerSpan>,
) -> Result<(), Failure> {
    let series = n % SERIES;
    let name = SeriesName {
        host: format!("machine-{series:02}.example.org").into_bytes(),
        paths: vec![b"/etc".to_vec(), b"/home".to_vec(), b"/srv/data".to_vec()],
    };
    let folder = sealer.key().series_id(&name.to_bytes());
    let claim = Claim {
        series: folder,
        name: name.clone(),
        process: 1000,
        has_lock: false,
    };
    sealer.put(&names::claim(session), ObjectKind::Claim, &claim.to_bytes())?;
    let data: u64 = containers.iter().map(|span| u64::from(span.count)).sum();
    let root = |role, n: u8| {
        Ok::<_, Failure>(StreamRoot {
            role,
            location: ChunkLocation {
                container: ContainerId {
                    session,
                    kind: ContainerKind::Recipe,
                    sequence: SequenceNumber::new(u32::try_from(data.saturating_sub(1))?)?,
                },
                slot: Slot::new(u32::from(n))?,
            },
            level: Level::new(2)?,
            fingerprint: Fingerprint::from_bytes([n; 32]),
            len: data * CHUNKS_A_CONTAINER * CHUNK_BYTES,
        })
    };
    let parent = n.checked_sub(SERIES).map(|before| SessionId::new(before + 1));
    let backup = Backup {
        series: name,
        source_time: UnixNanos::new(1_700_000_000_000_000_000 + i64::try_from(n)? * 3_600_000_000_000),
        elapsed_nanos: 60_000_000_000,
        user: b"root".to_vec(),
        program: "onefold".to_owned(),
        tags: vec!["nightly".to_owned()],
        hold_until: None,
        streams: vec![
            root(StreamRole::Content, 1)?,
            root(StreamRole::Listing, 2)?,
            root(StreamRole::Fences, 3)?,
        ],
        containers,
        adopted: Vec::new(),
        origin: None,
        next: None,
        rewritten: None,
        parents: parent
            .transpose()?
            .into_iter()
            .map(|id| (id, Revision::FIRST))
            .collect(),
        totals: BackupTotals {
            bytes_logical: data * CHUNKS_A_CONTAINER * CHUNK_BYTES,
            bytes_stored: data << 24,
            chunks: data * CHUNKS_A_CONTAINER,
            ..BackupTotals::default()
        },
    };
    let object = names::manifest(folder, session, Revision::FIRST);
    sealer.put(
        &object,
        ObjectKind::Manifest,
        &Manifest::Commit(backup).to_bytes(),
    )?;
    Ok(())
}
