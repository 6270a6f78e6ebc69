use std::fs;
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ddi::{Bucket, DuplicatesIndex, MemoryIndex, Operation, Outcome};
use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

use super::bed::POOL;
use super::far_index::{FarIndex, IndexService};
use super::figure_3::{FINDER_BLOCKS_PER_S, HostProcess, WRITES_PER_S};
use super::frames::{Answer, Request, receive, send};
use super::host::HostSettings;
use super::*;
use crate::reproduce::figures::number;
use crate::reproduce::{Experiment, Progress, Row, Verdict};

fn tiny() -> Scale {
    Scale {
        volume_bytes: 4 << 20,
        load_1: Duration::from_millis(600),
        load_2: Duration::from_millis(600),
        rounds: 2,
        load_3: Duration::from_millis(500),
        host_bytes: 1 << 20,
        hosts: vec![1, 2],
        interval_s: 0,
        interval_3_s: 0,
    }
}

fn measured(part: Part, folder: &Path) -> Experiment {
    let (progress, mut all) = (Progress::new(Arc::default()), Vec::new());
    let mut report = |experiment| {
        all.push(experiment);
        Ok(())
    };
    let mut run = Run {
        extent: Extent::Quick,
        parts: &[part],
        versions: None,
        disk: DiskOptions::default(),
        folder,
        progress: &progress,
        report: &mut report,
    };
    run_at(&mut run, tiny()).unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "a folder remains");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn value(experiment: &Experiment, words: &str) -> f64 {
    let row = experiment.rows.iter().find(|row| row.what.contains(words));
    row.and_then(|row| row.value)
        .unwrap_or_else(|| panic!("{words} is not in {experiment:#?}"))
}

#[test]
fn table_1_finds_every_duplicate() {
    let folder = tempfile::tempdir().unwrap();
    let table = measured(TABLE_1, folder.path());
    for name in ["hash", "byte"] {
        let exact = format!("those of an exact scan, {name}");
        let row = table.rows.iter().find(|row| row.what.contains(&exact)).unwrap();
        assert_eq!(row.verdict, Verdict::Met, "{row:?}");
        assert!(value(&table, &format!("space saved, of the volume, {name}")) > 0.0);
        assert!(value(&table, &format!("finder beside the load, {name}")) > 0.0);
        assert!(value(&table, &format!("that this load needs, {name}")) > 0.0);
    }
}

#[test]
fn table_2_has_every_mode_in_every_round() {
    let folder = tempfile::tempdir().unwrap();
    let table = measured(TABLE_2, folder.path());
    for mode in [
        "file without",
        "volume without",
        "no hotspot avoidance",
        "hash",
        "byte",
    ] {
        let per_s = value(&table, &format!("writes a second, {mode}"));
        let latency = value(&table, &format!("mean latency, {mode}"));
        assert!(per_s > 0.0 && latency > 0.0, "{table:#?}");
    }
    let series = &table.plots[0].series;
    assert!(series.len() == 5 && series.iter().all(|one| one.points.len() == 2));
    let avoided = table.rows.iter().filter(|row| row.what.contains("avoided"));
    let copies: Vec<&str> = avoided.map(|row| row.ours.as_str()).collect();
    assert_eq!(copies.len(), 2);
    // The paper compares with a disk without DEDIS.
    let of = |words: &str| -> Vec<&Row> {
        let rows = table.rows.iter();
        rows.filter(|row| row.what.contains(words)).collect()
    };
    let (file, volume) = (of("of a file: at"), of("of a volume without dedup"));
    assert!(file.len() == 6 && volume.len() == 6, "{table:#?}");
    assert!(
        file.iter().all(|row| row.verdict != Verdict::NotJudged),
        "{file:#?}"
    );
    assert!(
        volume.iter().all(|row| row.verdict == Verdict::NotJudged),
        "{volume:#?}"
    );
    assert!(
        !copies[0].contains("0.0000 without hotspot avoidance"),
        "{copies:?}"
    );
}

#[test]
fn figure_3_has_every_number_of_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let figure = measured(FIGURE_3, folder.path());
    for hosts in [1, 2] {
        for what in [
            format!("reads/s, {hosts} hosts"),
            format!("writes/s, {hosts} hosts"),
            format!("blocks/s of all finders while they examine, {hosts} hosts"),
        ] {
            assert!(value(&figure, &what) > 0.0, "{what}");
        }
    }
    // How many depends on the machine.
    for hosts in [1, 2] {
        let what = format!("examined beside the load, {hosts} hosts");
        let row = figure.rows.iter().find(|row| row.what.ends_with(&what)).unwrap();
        assert!(row.ours.ends_with(" after it"), "{row:?}");
    }
    assert_eq!(figure.plots.len(), 3);
    assert!(figure.setup.contains("Each host is a thread"), "{}", figure.setup);
}

#[test]
fn a_scale_takes_the_options() {
    let hosts = [3];
    let options = DiskOptions {
        load: Some(Duration::from_secs(9)),
        interval_s: Some(4),
        hosts: &hosts,
        ..DiskOptions::default()
    };
    let (given, own) = (
        Scale::of(Extent::Full, &options),
        Scale::of(Extent::Full, &DiskOptions::default()),
    );
    assert_eq!(
        [given.load_1, given.load_2, given.load_3],
        [Duration::from_secs(9); 3]
    );
    assert_eq!((given.interval_s, &given.hosts[..]), (4, &hosts[..]));
    assert_eq!((given.interval_3_s, own.interval_3_s), (4, 150));
    assert_eq!((own.interval_s, own.volume_bytes), (300, 4 << 30));
    assert_eq!(own.load_1, Duration::from_secs(5400));
}

fn batch(number: u64) -> BatchSequence {
    BatchSequence::new(number).unwrap()
}

fn operations() -> [Operation; 2] {
    let (fingerprint, count) = (Fingerprint::from_bytes([7; 32]), 2);
    let block = BlockNumber::new(11).unwrap();
    [
        Operation::Increment {
            fingerprint,
            block,
            count,
        },
        Operation::Decrement {
            fingerprint,
            block,
            count: 1,
        },
    ]
}

#[test]
fn hosts_share_an_index_without_sharing_rows() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let service = IndexService::start(&socket, Arc::new(MemoryIndex::new(POOL))).unwrap();
    let client = VolumeId::new(1).unwrap();
    let hosts = [0, 1].map(|number| FarIndex::new(&socket, Bucket::new(number).unwrap()));
    for host in &hosts {
        assert_eq!(host.client(Bucket::FIRST, client).unwrap(), None);
        let outcomes = [Outcome::Registered, Outcome::Remaining(1)];
        // Twice: a batch that is sent again takes effect once.
        for _ in 0..2 {
            let applied = host.apply(Bucket::FIRST, client, batch(1), &operations());
            assert_eq!(applied.unwrap(), outcomes);
        }
        assert_eq!(host.client(Bucket::FIRST, client).unwrap(), Some(batch(1)));
        let sums = host.statistics().unwrap();
        assert_eq!((sums.rows(), sums.references()), (1, 1));
    }
    assert_eq!(service.applied(), (8, 4));
    hosts[0].check_pool(POOL).unwrap();
    let other = hosts[0].check_pool([9; 16]).unwrap_err().to_string();
    assert!(other.contains("of another pool"), "{other}");
    let error = hosts[0].apply(Bucket::FIRST, client, batch(9), &operations());
    assert!(error.unwrap_err().to_string().contains("it has lost batches"));
    assert!(hosts[0].rebuild().is_err() && hosts[0].forget_client(client).is_err());
    drop(hosts);
    drop(service);
    let gone = FarIndex::new(&socket, Bucket::FIRST);
    assert!(gone.statistics().is_err());
}

#[test]
fn frames_return_what_was_sent_and_refuse_other_bytes() {
    let (bucket, client) = (Bucket::FIRST, VolumeId::new(5).unwrap());
    let requests = [
        Request::Apply {
            bucket,
            client,
            sequence: batch(3),
            operations: operations().to_vec(),
        },
        Request::Client { bucket, client },
        Request::Size { bucket },
        Request::Pool { pool: POOL },
    ];
    let block = BlockNumber::new(1).unwrap();
    let answers = [
        Answer::Outcomes(vec![
            Outcome::Registered,
            Outcome::Hit { block },
            Outcome::Remaining(4),
            Outcome::Freed,
            Outcome::Unknown,
        ]),
        Answer::Last(Some(batch(2))),
        Answer::Last(None),
        Answer::Size {
            rows: 1,
            references: 2,
            disk_bytes: 3,
        },
        Answer::Failed("no".to_owned()),
    ];
    for request in requests {
        let bytes = request.encoded();
        assert_eq!(Request::decode(&bytes).unwrap(), request);
        for len in 0..bytes.len() {
            assert!(Request::decode(&bytes[..len]).is_err(), "{request:?}");
        }
        assert!(
            Request::decode(&[&bytes[..], &[0]].concat()).is_err(),
            "{request:?}"
        );
    }
    for answer in answers {
        let bytes = answer.encoded();
        assert_eq!(Answer::decode(&bytes).unwrap(), answer);
        for len in 0..bytes.len() {
            assert!(Answer::decode(&bytes[..len]).is_err(), "{answer:?}");
        }
        assert!(
            Answer::decode(&[&bytes[..], &[0]].concat()).is_err(),
            "{answer:?}"
        );
    }
    let mut sent = Vec::new();
    send(&mut sent, b"one").unwrap();
    assert_eq!(receive(&mut &sent[..]).unwrap(), Some(b"one".to_vec()));
    assert_eq!(receive(&mut &sent[..0]).unwrap(), None);
    assert!(receive(&mut &sent[..5]).is_err());
    assert!(receive(&mut &u32::MAX.to_le_bytes()[..]).is_err());
}

fn host_settings(folder: PathBuf) -> HostSettings {
    HostSettings {
        number: 1,
        socket: folder.join("s"),
        folder,
        volume_bytes: 1 << 20,
        load: Duration::from_millis(10),
        interval_s: 0,
        finder_blocks_per_s: 100,
        reads_per_s: 1.0,
        writes_per_s: 1.0,
        distribution: None,
        access: crate::disk::Access::default(),
    }
}

#[test]
fn a_host_refuses_settings_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let good = host_settings(folder.path().join("host"));
    let refused = |settings: &HostSettings| {
        let words = serde_json::to_string(settings).unwrap();
        serve_host(&words, &mut Cursor::new(""), &mut Vec::new()).unwrap_err()
    };
    let wrong = [
        serve_host("{}", &mut Cursor::new(""), &mut Vec::new()).unwrap_err(),
        refused(&HostSettings {
            number: u16::MAX,
            ..good.clone()
        }),
        refused(&HostSettings {
            volume_bytes: u64::MAX,
            ..good.clone()
        }),
    ];
    for error in wrong {
        assert!(error.to_string().contains("the settings of a host"), "{error}");
    }
    // Nobody serves the index: a limit of any size is accepted before that.
    let limit = HostSettings {
        finder_blocks_per_s: u64::MAX,
        ..good
    };
    assert!(!refused(&limit).to_string().contains("the settings of a host"));
}

#[test]
fn a_folder_that_is_not_utf8_is_refused_before_a_host_starts() {
    let folder = PathBuf::from(std::ffi::OsStr::from_bytes(b"/nowhere/\xff"));
    let error = HostProcess::start(Path::new("/bin/true"), &host_settings(folder))
        .err()
        .unwrap();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn a_finder_can_begin_beside_the_load() {
    for extent in [Extent::Quick, Extent::Full] {
        let scale = Scale::of(extent, &DiskOptions::default());
        let interval = f64::from(scale.interval_3_s);
        assert!(interval >= 1.0, "{scale:?}");
        // At most, each write drops a reference to another block; the collector pauses for each.
        let pause = WRITES_PER_S / number(FINDER_BLOCKS_PER_S);
        let (mut begun, mut at) = (0.0, interval);
        for _ in 0..2 {
            let next = at + pause * (at - begun) + interval;
            (begun, at) = (at, next);
        }
        assert!(at < 0.75 * scale.load_3.as_secs_f64(), "{at} s: {scale:?}");
    }
    let load = |seconds| interval_beside(Duration::from_secs(seconds));
    assert_eq!([load(4), load(12), load(60)], [0, 1, 5]);
}
