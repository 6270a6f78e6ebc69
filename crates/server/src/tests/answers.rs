//! The memory of answers.

use std::sync::mpsc::{Receiver, Sender, channel};

use container::{CatalogView, CompressedRegion, RegionBuffer};
use onefold::repository::Repository;
use recipe::{StoreReader, TreeRoot, open_node};
use types::RegionIndex;
use wire::AskedRegions;

use super::reading::stored;
use super::*;
use crate::reading::{AT_ONCE_BYTES, reads_of};

/// Clients of each token.
const CLIENTS: usize = 16;

/// The first container of a stream, and many of its regions.
fn view_of(reader: &dyn StoreReader, root: &TreeRoot) -> (Arc<CatalogView>, Vec<RegionIndex>) {
    let segments = open_node(reader, root).unwrap();
    let chunks = open_node(reader, &segments[0].as_root().unwrap()).unwrap();
    let view = reader.catalog(chunks[0].location().unwrap().container).unwrap();
    let count = u32::try_from(view.rows().len()).unwrap().min(100);
    let regions = (0..count).map(|n| RegionIndex::new(n).unwrap()).collect();
    (view, regions)
}

/// A backup, many regions of its first container, and their bytes.
fn longest(bed: &Bed) -> (SessionId, AskedRegions, Vec<u8>) {
    let (store, snapshot, root) = stored(bed, 24 << 20);
    let pinned = Repository::pin(&store, &snapshot, &Monitor::default()).unwrap();
    let reader = pinned.reader().unwrap();
    let (view, regions) = view_of(reader, &root);
    let mut buffer = RegionBuffer::default();
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
    let regions = Vec::<CompressedRegion>::from_bytes(&answer).unwrap();
    regions
        .iter()
        .flat_map(|region| region.decompress().unwrap())
        .collect()
}

/// Many clients ask for long answers and do not read them. There is memory for some of these
/// answers, the others have little, and nobody waits for the clients.
#[test]
fn nobody_waits_for_clients_that_do_not_read() {
    let bed = Bed::new();
    let (id, asked, plain) = longest(&bed);
    assert!(plain.len() > 8 << 20, "{}", plain.len());
    let asked = asked.to_bytes();
    let clients = |_| {
        let token = bed.token("web", "read");
        let client = |_| bed.logged_in("web", token.clone());
        (0..CLIENTS).map(client).collect::<Vec<_>>()
    };
    // Each of two tokens can have half of the memory.
    let stalled: Vec<Client> = (0..2).flat_map(clients).collect();
    let count = stalled.len();
    let other = bed.client("web", "read");
    let memory = &bed.server.state().memory;
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
        (0..count).for_each(|_| begun.recv().unwrap());
        let held = memory.of_answers();
        assert!((16 << 20..=24 << 20).contains(&held), "{held} bytes");
        let (signal, go_on) = channel();
        signal.send(()).unwrap();
        let (other_began, _begun) = channel();
        assert!(reads(other, id, asked, &other_began, &go_on) == plain);
        signals.iter().for_each(|signal| signal.send(()).unwrap());
        for thread in threads {
            assert!(thread.join().unwrap() == plain);
        }
    });
    assert_eq!(memory.of_answers(), 0);
}

/// What lies between two regions is read with them.
#[test]
fn few_bytes_are_read_at_once() {
    let bed = Bed::new();
    let (store, snapshot, root) = stored(&bed, 24 << 20);
    let pinned = Repository::pin(&store, &snapshot, &Monitor::default()).unwrap();
    let (view, regions) = view_of(pinned.reader().unwrap(), &root);
    let reads = reads_of(&view, &regions, AT_ONCE_BYTES);
    assert!(
        reads.len() > 8 && reads.len() < regions.len() / 4,
        "{}",
        reads.len()
    );
    let read: Vec<RegionIndex> = reads.iter().flat_map(|(some, _)| *some).copied().collect();
    assert_eq!(read, regions);
    assert!(reads.iter().all(|(_, bytes)| *bytes <= 2 * AT_ONCE_BYTES));
    let single = reads_of(&view, &regions, 0);
    assert_eq!(single.len(), regions.len());
    let ends = [regions[0], *regions.last().unwrap()];
    let reads = reads_of(&view, &ends, AT_ONCE_BYTES);
    assert_eq!(reads.len(), 2, "not what lies between them");
}
