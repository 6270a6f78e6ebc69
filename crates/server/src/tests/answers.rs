//! Answers wait for memory.

use std::sync::mpsc::{Receiver, Sender, channel};

use onefold::repository::Repository;
use recipe::open_node;
use wire::AskedRegions;

use super::reading::stored;
use super::*;

/// Clients of each token.
const CLIENTS: usize = 16;

/// The longest container of a backup, all of its regions, and their bytes.
fn longest(bed: &Bed) -> (SessionId, AskedRegions, Vec<u8>) {
    let (store, snapshot, root) = stored(bed, 24 << 20);
    let pinned = Repository::pin(&store, &snapshot, &Monitor::default()).unwrap();
    let reader = pinned.reader().unwrap();
    let segments = open_node(reader, &root).unwrap();
    let chunks = open_node(reader, &segments[0].as_root().unwrap()).unwrap();
    let view = reader.catalog(chunks[0].location().unwrap().container).unwrap();
    let regions: Vec<_> = (0..)
        .map_while(|n| types::RegionIndex::new(n).ok())
        .take(100)
        .collect();
    let mut buffer = container::RegionBuffer::default();
    reader.read_regions_into(&view, &regions, &mut buffer).unwrap();
    let asked = AskedRegions {
        container: view.id(),
        generation: view.generation(),
        regions,
    };
    let plain = buffer.regions().flat_map(|(_, plain)| plain).copied().collect();
    (snapshot.id, asked, plain)
}

/// Asks for the regions, and takes the first part. Says so, and takes the rest when it may.
fn reads(
    mut client: Client,
    id: SessionId,
    asked: &[u8],
    began: &Sender<()>,
    go_on: &Receiver<()>,
) -> Vec<u8> {
    client.ask(request::READ, &vec![id]).unwrap();
    let number = client.send(request::REGIONS, asked);
    let mut answer = Vec::new();
    loop {
        let (kind, answered, part) = client.next().expect("a part");
        assert_eq!(answered, number);
        if answer.is_empty() {
            began.send(()).unwrap();
            go_on.recv().unwrap();
        }
        answer.extend(part);
        if kind == reply::ANSWER {
            break;
        }
        assert_eq!(kind, reply::PART);
    }
    let regions = Vec::<container::CompressedRegion>::from_bytes(&answer).unwrap();
    regions
        .iter()
        .flat_map(|region| region.decompress().unwrap())
        .collect()
}

/// Many clients ask for long answers and do not read them. Few of the answers are in memory, and
/// another token need not wait for these clients.
#[test]
fn answers_that_nobody_reads_are_not_all_in_memory() {
    let bed = Bed::new();
    let (id, asked, plain) = longest(&bed);
    assert!(plain.len() > 8 << 20, "{}", plain.len());
    let asked = asked.to_bytes();
    let token = bed.token("web", "read");
    let clients = |token: &str| -> Vec<Client> {
        (0..CLIENTS)
            .map(|_| bed.logged_in("web", token.to_owned()))
            .collect()
    };
    let (stalled, other) = (clients(&token), bed.client("web", "read"));
    thread::scope(|scope| {
        let (began, begun) = channel();
        let asked = &asked[..];
        let mut threads = Vec::new();
        let mut signals = Vec::new();
        for client in stalled {
            let (signal, go_on) = channel();
            let began = began.clone();
            threads.push(scope.spawn(move || reads(client, id, asked, &began, &go_on)));
            signals.push(signal);
        }
        begun.recv().unwrap();
        SystemClock.sleep(Duration::from_secs(1));
        let count = 1 + begun.try_iter().count();
        assert!(count < CLIENTS, "{count} answers have begun");
        let (signal, go_on) = channel();
        signal.send(()).unwrap();
        let (other_began, _begun) = channel();
        assert!(reads(other, id, asked, &other_began, &go_on) == plain);
        signals.iter().for_each(|signal| signal.send(()).unwrap());
        for thread in threads {
            assert!(thread.join().unwrap() == plain);
        }
    });
}
