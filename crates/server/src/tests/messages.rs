//! The memory of messages: a client that does nothing more has none of it.

use super::*;
use crate::connection::READ_BACKUPS_MAX;

/// More numbers than a message has without being counted.
const MANY: usize = 100_000;

fn counted(bed: &Bed) -> u64 {
    bed.server.state().memory.of_bodies()
}

/// A backup that begins with a long message.
fn long_beginning(id: SessionId) -> Begin {
    Begin {
        continues: vec![id; MANY],
        ..Client::beginning(Parents::LatestTree)
    }
}

#[test]
fn a_client_that_reads_has_no_memory_of_messages() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "read");
    let begun = client.ask(request::READ, &vec![id; MANY]).unwrap();
    assert_eq!(wire::ReadBegun::from_bytes(&begun).unwrap().backups.len(), 1);
    assert_eq!(counted(&bed), 0);
}

#[test]
fn a_client_names_only_so_many_backups_to_read() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "read");
    let most = usize::try_from(READ_BACKUPS_MAX).unwrap();
    let refused = client.ask(request::READ, &vec![id; most + 1]).unwrap_err();
    assert!(refused.to_string().contains("choose fewer"), "{refused}");
    client.ask(request::READ, &vec![id; most]).unwrap();
}

#[test]
fn a_running_backup_has_no_memory_of_messages() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "write");
    client.ask(request::BEGIN, &long_beginning(id)).unwrap();
    assert_eq!(counted(&bed), 0);
}

/// The least memory has room for one backup of an owner.
#[test]
fn a_backup_that_waits_for_its_place_has_no_memory_of_messages() {
    let bed = Bed::new();
    let token = bed.token("web", "write");
    let (mut first, mut second) = (bed.logged_in("web", token.clone()), bed.logged_in("web", token));
    let id = first.begin(Parents::LatestTree).unwrap().session;
    let number = second.send(request::BEGIN, &long_beginning(id).to_bytes());
    SystemClock.sleep(Duration::from_millis(300));
    assert_eq!(counted(&bed), 0);
    first.ask(request::END, &()).unwrap();
    let (kind, answered, _) = second.next().expect("an answer");
    assert_eq!((kind, answered), (reply::ANSWER, number));
}

/// The store takes no more offers until its verdicts are taken.
#[test]
fn a_backup_whose_verdicts_are_not_taken_has_no_memory_of_messages() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let terms = client.begin(Parents::LatestTree).unwrap().terms;
    let offer = || offered(segment(&terms, children(&terms, &[&CHUNK])));
    for _ in 0..2 {
        client.submit((0..2000).map(|_| offer()).collect());
    }
    SystemClock.sleep(Duration::from_secs(1));
    assert_eq!(counted(&bed), 0);
}

#[test]
fn a_backup_has_only_so_many_parents() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "write");
    let mut begin = Client::beginning(Parents::Named(vec![id; 1025]));
    let refused = client.ask(request::BEGIN, &begin).unwrap_err();
    assert!(refused.to_string().contains("choose fewer"), "{refused}");
    begin.parents = Parents::Named(vec![id; 1024]);
    client.ask(request::BEGIN, &begin).unwrap();
}

/// A client of a vault that does not read its answer.
#[test]
fn a_long_answer_has_no_memory_of_messages() {
    let bed = Bed::new();
    bed.home().ensure_vault("safe").unwrap();
    let folder = bed.folder.path().join("vaults/safe");
    assert!(folder.is_dir(), "the vault is where the test puts objects");
    let objects = folder.join("data/1");
    std::fs::create_dir_all(&objects).unwrap();
    for number in 0..20_000 {
        std::fs::write(objects.join(format!("object-with-a-long-name-{number:0100}")), []).unwrap();
    }
    let mut client = bed.client("safe", "read");
    let sub_folders = vec!["1".to_owned(); MANY];
    let request = wire::StorageRequest::ListIn("data".to_owned(), sub_folders);
    client.send(request::STORAGE, &request.to_bytes());
    let (kind, ..) = client.next().expect("the first part of an answer");
    assert_eq!(kind, reply::PART);
    assert_eq!(counted(&bed), 0);
}
