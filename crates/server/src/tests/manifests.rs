//! Manifests that each list of the tenant's backups would have in memory.

use onefold::calls::Call;
use onefold::{TagChange, Which};

use super::calls::called;
use super::limits::all_but_committed;
use super::*;

/// Names of 17 MiB, which are no name of a backup.
fn long_name() -> SeriesName {
    let path = |number: usize| format!("/{number:065534}").into_bytes();
    SeriesName {
        host: b"host".to_vec(),
        paths: (0..260).map(path).collect(),
    }
}

fn tags(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:05}")).collect()
}

#[test]
fn a_backup_with_too_many_paths_does_not_begin() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let begin = Begin {
        name: long_name(),
        ..Client::beginning(Parents::LatestTree)
    };
    let refused = client.ask(request::BEGIN, &begin).unwrap_err();
    assert!(refused.to_string().contains("260 paths"), "{refused}");
    honest(&mut client);
    let sought = wire::Sought {
        attempt: 1,
        session: SessionId::new(1).unwrap(),
        about: About {
            name: long_name(),
            ..about()
        },
    };
    let refused = client.ask(request::COMMITTED, &sought).unwrap_err();
    assert!(refused.to_string().contains("260 paths"), "{refused}");
}

#[test]
fn a_backup_is_committed_with_only_so_many_tags() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    all_but_committed(&mut client, 1);
    let with = |count| About {
        tags: tags(count),
        ..about()
    };
    let refused = client.ask(request::COMMIT, &with(1001)).unwrap_err();
    assert!(refused.to_string().contains("1001 tags"), "{refused}");
    client.ask(request::COMMIT, &with(1000)).unwrap();
}

#[test]
fn a_backup_gets_only_so_many_tags() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "forget");
    let mut tag = |count| {
        let call = Call::Tag {
            which: Which::Named(vec![id.to_string()]),
            change: TagChange::Set(tags(count)),
        };
        called(&mut client, &call)
    };
    let refused = tag(1001).unwrap_err();
    assert!(refused.to_string().contains("1001 tags"), "{refused}");
    tag(1000).unwrap();
    let snapshots = bed.store().snapshots().unwrap().snapshots;
    assert_eq!(snapshots[0].backup.tags.len(), 1000);
}
