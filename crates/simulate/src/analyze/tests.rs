use std::cell::Cell;
use std::fs;

use env::{Entropy, SeededEntropy};

use super::*;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    bytes
}

fn tried() -> Tried {
    Tried {
        chunk_bytes: vec![4 << 10, 8 << 10, 64 << 10],
        fixed: false,
        caps: vec![Capping::default().cap, Cap::Fixed(1)],
        memories: vec![256 << 10, 8 << 20],
        memory: 256 << 10,
        container_bytes: 256 << 10,
    }
}

fn analysis(backups: &[Vec<u8>], tried: &Tried) -> Result<(Analysis, u64), SimulateError> {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..backups.len())
        .map(|n| folder.path().join(format!("<{n}>")))
        .collect();
    for (path, bytes) in paths.iter().zip(backups) {
        fs::write(path, bytes).unwrap();
    }
    let read = Cell::new(0);
    let counted = |bytes| read.set(read.get() + bytes);
    let analysis = analyze(&paths, tried, None, &Arc::default(), &counted)?;
    Ok((analysis, read.get()))
}

/// Versions of a MiB. Each changes every 64th KiB, at places that no earlier version changed.
fn versions(count: usize) -> Vec<Vec<u8>> {
    let mut data = noise(1, 1 << 20);
    let mut all = vec![data.clone()];
    for version in 1..count {
        for part in 0..16 {
            let at = (part << 16) + version * 2048;
            data[at..at + 100].copy_from_slice(&noise((version * 16 + part) as u64 + 2, 100));
        }
        all.push(data.clone());
    }
    all
}

#[test]
fn data_is_read_once_and_long_chunks_store_more_of_small_changes() {
    let backups = versions(6);
    let (analysis, read) = analysis(&backups, &tried()).unwrap();
    assert_eq!((read, analysis.bytes), (6 << 20, 6 << 20));
    let sizes: Vec<u32> = analysis.by_size.iter().map(|given| given.chunk_bytes).collect();
    assert_eq!(sizes, [4 << 10, 8 << 10, 64 << 10]);
    assert!(analysis.by_size.windows(2).all(|two| {
        two[0].bytes_stored < two[1].bytes_stored && two[0].chunks_stored > two[1].chunks_stored
    }));
    assert_eq!(analysis.recommended.chunk_bytes, 4 << 10);
    let caps: Vec<Cap> = analysis.by_cap.iter().map(|given| given.cap).collect();
    assert_eq!(caps, [Cap::None, Capping::default().cap, Cap::Fixed(1)]);
    assert!(
        analysis
            .by_cap
            .iter()
            .all(|given| given.bytes_stored >= analysis.by_cap[0].bytes_stored)
    );
    for given in &analysis.by_cap {
        let [little, much] = given.speeds[..] else {
            panic!("a speed for each memory")
        };
        assert_eq!((little.0, much.0), (256 << 10, 8 << 20));
        assert!(little.1 <= much.1, "{little:?}, {much:?}");
    }
}

#[test]
fn a_cap_is_tried_as_backups_have_it_and_restored_with_half_of_the_memory() {
    for cap in [Cap::None, Capping::default().cap, Cap::Fixed(20)] {
        let settings = settings(cap, &tried(), 4);
        let Finding::Engine(policy) = settings.finding else {
            panic!("not the engine's policy")
        };
        assert_eq!((policy.capping, settings.skip), (Capping::of(cap), 4));
        let first = Memory {
            bytes: 128 << 10,
            assembly: Assembly::LookAhead,
        };
        assert_eq!((settings.memories[0], settings.memories.len()), (first, 2));
    }
}

/// 32 backups of 4 MiB. Each has sixteen new pieces of 8 KiB, so the last ones are scattered over
/// all of them.
fn scattered() -> Vec<Vec<u8>> {
    let mut data = noise(1, 4 << 20);
    let mut all = vec![data.clone()];
    for version in 1..32 {
        for part in 0..16 {
            let at = (part << 18) + ((version * 29) % 32) * (8 << 10);
            data[at..at + (8 << 10)].copy_from_slice(&noise((version * 16 + part) as u64, 8 << 10));
        }
        all.push(data.clone());
    }
    all
}

/// Each cap is tried as `backup --cap` alone would use it: a stronger cap stores more chunks again,
/// and its restores are faster.
#[test]
fn caps_by_bytes_cost_and_bring_something_where_data_are_scattered() {
    let caps = [56, 112].map(|kib| Cap::Least(kib << 10));
    let tried = Tried {
        caps: caps.to_vec(),
        memories: vec![256 << 10, 2 << 20],
        memory: 2 << 20,
        ..tried()
    };
    let (analysis, _) = analysis(&scattered(), &tried).unwrap();
    let rows: Vec<(Cap, f64, f64)> = analysis
        .by_cap
        .iter()
        .map(|given| (given.cap, given.factor, given.speed(tried.memory).unwrap()))
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(
        rows.windows(2)
            .all(|two| two[0].1 > two[1].1 && two[0].2 < two[1].2),
        "{rows:?}"
    );
}

#[test]
fn data_that_never_repeats_gets_the_longest_chunks_or_the_default() {
    let (analysis, _) = analysis(&[noise(3, 1 << 20)], &tried()).unwrap();
    // 64 bytes are less than 1 % of 8 KiB.
    assert_eq!(analysis.recommended.chunk_bytes, 8 << 10);
    assert_eq!(analysis.recommended.cap, Capping::default().cap);
    assert!(analysis.recommended.cap_why.contains("several versions"));
}

#[test]
fn the_file_needs_no_network_and_names_are_not_markup() {
    let (analysis, _) = analysis(&versions(3), &tried()).unwrap();
    let html = html(&analysis).unwrap();
    assert!(html.contains("&lt;2&gt;") && !html.contains("<2>"));
    assert_eq!(html.matches("<svg").count(), 4);
    let fetched = ["src=", "href=\"http", "@import", "url("];
    assert!(fetched.iter().all(|outside| !html.contains(outside)));
    for closed in [
        "svg", "table", "ul", "ol", "html", "body", "tr", "td", "th", "code", "b",
    ] {
        let opened =
            html.matches(&format!("<{closed}>")).count() + html.matches(&format!("<{closed} ")).count();
        assert_eq!(opened, html.matches(&format!("</{closed}>")).count(), "{closed}");
    }
}

#[test]
fn the_file_calls_settings_as_options_take_them() {
    let (analysis, _) = analysis(&versions(6), &tried()).unwrap();
    let html = html(&analysis).unwrap();
    let chosen = cap_name(analysis.recommended.cap);
    let memory = bytes_name(analysis.recommended.memory.unwrap());
    let said = [
        "<th><code>init --chunk-kib</code></th>".to_owned(),
        "<tr><td><code>64</code></td>".to_owned(),
        "<code>init --chunk-kib 4</code>".to_owned(),
        "<th><code>backup --cap</code></th>".to_owned(),
        "<tr><td><code>none</code></td>".to_owned(),
        "<tr><td><code>least:56K</code></td>".to_owned(),
        "<tr><td><code>1</code></td>".to_owned(),
        format!("<code>backup --cap {chosen}</code>"),
        "<th>speed with <code>256K</code></th>".to_owned(),
        format!("<code>restore --memory {memory}</code>"),
        "none least:56K".to_owned(),
        "none 1".to_owned(),
    ];
    for said in said {
        assert!(html.contains(&said), "{said} in {html}");
    }
}

#[test]
fn only_zeros_and_trials_without_the_default_are_errors() {
    let error = analysis(&[vec![0; 100_000]], &tried()).unwrap_err().to_string();
    assert!(error.contains("no data"), "{error}");
    let without = |tried: Tried, what: &str| {
        let error = analysis(&[noise(1, 10)], &tried).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let sizes = Tried {
        chunk_bytes: vec![4 << 10],
        ..tried()
    };
    without(sizes, "default chunk size");
    let caps = Tried {
        caps: vec![Cap::Fixed(20)],
        ..tried()
    };
    without(caps, "default cap");
    let memories = Tried {
        memory: 96 << 20,
        ..tried()
    };
    without(memories, "default memory");
}

#[test]
fn images_are_cut_evenly_and_asked_for_as_images() {
    let fixed = Tried {
        fixed: true,
        ..tried()
    };
    let (of_images, _) = analysis(&versions(3), &fixed).unwrap();
    assert_eq!(
        of_images.by_size[0].chunks_stored % 256,
        32,
        "256 chunks of 4 KiB, and 16 changed twice"
    );
    assert_eq!(of_images.recommended.chunk_option, "backup --image-kib");
    assert!(html(&of_images).unwrap().contains("backup --image-kib"));
    let (of_files, _) = analysis(&versions(3), &tried()).unwrap();
    assert_eq!(of_files.recommended.chunk_option, "init --chunk-kib");
}

#[test]
fn where_the_last_backups_are_empty_no_memory_is_recommended() {
    let backups = [noise(1, 100_000), Vec::new(), Vec::new(), Vec::new()];
    let (analysis, _) = analysis(&backups, &tried()).unwrap();
    assert_eq!(analysis.recommended.memory, None);
}
