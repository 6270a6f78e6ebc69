//! Properties of every workload.

use std::collections::HashMap;

use simulate::{Extent, Source};

use super::*;
use crate::test_output::TestOutput;
use crate::trace::open_trace;
use crate::{DestorWriter, TraceWriter};

/// The replayed backups.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(pub(super) Vec<(BackupHead, Vec<Chunk>)>);

impl Seen {
    pub(super) fn of(workload: &mut dyn Workload) -> Self {
        let mut seen = Self::default();
        workload.replay(&mut seen).unwrap();
        seen
    }

    fn of_trace(trace: &mut dyn Source) -> Self {
        let mut seen = Self::default();
        trace.replay(&mut seen).unwrap();
        seen
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk> {
        self.0.iter().flat_map(|(_, chunks)| chunks.iter().copied())
    }
}

impl Sink for Seen {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.0.push((head.clone(), Vec::new()));
        Ok(())
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        assert!(!chunks.is_empty());
        self.0.last_mut().unwrap().1.extend_from_slice(chunks);
        Ok(())
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        Ok(())
    }
}

/// Every workload, small enough to compare its bytes.
fn each(seed: u64) -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(TwoYear {
            seed,
            snapshot_bytes: 600_000,
            weeks: 2,
            ..TwoYear::default()
        }),
        Box::new(Unique {
            seed,
            stream_bytes: 200_000,
            streams: 3,
            rounds: 2,
            ..Unique::default()
        }),
        Box::new(Edits {
            seed,
            stream_bytes: 500_000,
            backups: 5,
            edit_bytes: 2000,
            inserted: 10.0,
            relocated: 10.0,
            repeated: 10.0,
            ..Edits::default()
        }),
        Box::new(Lineages {
            seed,
            file_bytes: 300_000,
            lineages: 2,
            generations: 6,
            update_bytes: 200,
            chunk_bytes: 2048,
            ..Lineages::default()
        }),
        Box::new(Images {
            seed,
            weeks: 6,
            ..Images::sg(5).unwrap().scaled(800_000)
        }),
        Box::new(Images {
            seed,
            weeks: 3,
            series: 2,
            ..Images::gp().scaled(800_000)
        }),
        Box::new(Images {
            seed,
            weeks: 3,
            series: 2,
            ..Images::students().scaled(800_000)
        }),
        Box::new(Vm {
            seed,
            unique_bytes: 300_000,
            versions: 4,
        }),
        Box::new(Workgroup {
            seed,
            machines: 4,
            machine_bytes: 300_000,
            weeks: 5,
            ..Workgroup::default()
        }),
    ]
}

#[test]
fn a_seed_repeats_itself_and_no_other() {
    for ((mut one, mut again), mut other) in each(1).into_iter().zip(each(1)).zip(each(2)) {
        let seen = Seen::of(&mut one);
        assert!(seen == Seen::of(&mut again), "{}", one.name());
        let shared = Seen::of(&mut other)
            .chunks()
            .find(|chunk| chunk.fingerprint.is_some() && seen.chunks().any(|known| known == *chunk));
        assert_eq!(shared, None, "{}", one.name());
    }
}

#[test]
fn bytes_repeat_exactly_where_the_trace_does() {
    for mut workload in each(3) {
        let name = workload.name();
        let written = TestOutput::default();
        let mut told = 0;
        write(
            &workload,
            |_| Ok(written.open()),
            |len| {
                told += len;
                Ok(())
            },
        )
        .unwrap();
        let seen = Seen::of(&mut workload);
        let each = written.into_each();
        assert_eq!(each.len(), seen.0.len(), "{name}");
        let (mut contents, mut prints) = (HashMap::new(), HashMap::new());
        for (bytes, (head, chunks)) in each.iter().zip(&seen.0) {
            let mut at = 0;
            for chunk in chunks {
                let part = &bytes[at..at + chunk.len as usize];
                at += part.len();
                assert_eq!(*contents.entry(chunk.fingerprint).or_insert(part), part, "{name}");
                if chunk.fingerprint.is_some() {
                    let print = prints.entry(part).or_insert(chunk.fingerprint);
                    assert_eq!(*print, chunk.fingerprint, "{name}: {} bytes", part.len());
                    assert!(part.len() < 8 || part.iter().any(|byte| *byte != 0), "{name}");
                } else {
                    assert!(part.iter().all(|byte| *byte == 0), "{name}");
                    contents.remove(&None);
                }
            }
            assert_eq!(at, bytes.len(), "{name}: {}", head.name);
            told -= bytes.len() as u64;
        }
        assert_eq!(told, 0, "{name}");
    }
}

#[test]
fn backups_have_names_of_their_own_and_chunks_their_lengths() {
    for mut workload in each(4) {
        let name = workload.name();
        let seen = Seen::of(&mut workload);
        let mut names: Vec<_> = seen.0.iter().map(|(head, _)| head.name.as_str()).collect();
        assert!(names.iter().all(|one| one.starts_with(name)), "{names:?}");
        assert!(seen.0.iter().all(|(_, chunks)| !chunks.is_empty()), "{name}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), seen.0.len(), "{name}");
        assert!(seen.chunks().all(|chunk| chunk.len > 0), "{name}");
        assert!(seen.0[0].0.extent == Extent::Full, "{name}");
    }
}

#[test]
fn traces_of_both_kinds_replay_the_generated_backups() {
    for mut workload in each(5) {
        let name = workload.name();
        let seen = Seen::of(&mut workload);
        let mut writer = TraceWriter::new(name, Vec::new()).unwrap();
        workload.replay(&mut writer).unwrap();
        let bytes = writer.finish().unwrap();
        assert!(
            Seen::of_trace(open_trace(name, bytes.as_slice()).unwrap().as_mut()) == seen,
            "{name}"
        );

        let days = TestOutput::default();
        workload
            .replay(&mut DestorWriter::new(|_| Ok(days.open())))
            .unwrap();
        for (day, (_, chunks)) in days.into_each().iter().zip(&seen.0) {
            let read = Seen::of_trace(open_trace(name, day.as_slice()).unwrap().as_mut());
            let cut = |chunk: &Chunk| {
                let bytes = chunk.fingerprint.map(|print| print.as_bytes()[..20].to_vec());
                (bytes, chunk.len)
            };
            assert!(
                read.chunks().map(|chunk| cut(&chunk)).eq(chunks.iter().map(cut)),
                "{name}"
            );
        }
    }
}
