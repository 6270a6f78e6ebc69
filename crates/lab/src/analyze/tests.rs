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
        caps: vec![1],
        memories: vec![256 << 10, 8 << 20],
        container_bytes: 256 << 10,
    }
}

fn analysis(backups: &[Vec<u8>], tried: &Tried) -> Result<(Analysis, u64), LabError> {
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

/// Versions of a MiB, in each of which every 64th KiB is changed where no version before was.
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
fn data_is_read_once_and_long_chunks_keep_more_of_what_changes_a_little() {
    let backups = versions(6);
    let (analysis, read) = analysis(&backups, &tried()).unwrap();
    assert_eq!((read, analysis.bytes), (6 << 20, 6 << 20));
    let sizes: Vec<u32> = analysis.by_size.iter().map(|given| given.chunk_bytes).collect();
    assert_eq!(sizes, [4 << 10, 8 << 10, 64 << 10]);
    assert!(analysis.by_size.windows(2).all(|two| {
        two[0].bytes_stored < two[1].bytes_stored && two[0].chunks_stored > two[1].chunks_stored
    }));
    assert_eq!(analysis.recommended.chunk_bytes, 4 << 10);
    let [none, one] = &analysis.by_cap[..] else {
        panic!("without a cap, and one")
    };
    assert_eq!((none.cap, one.cap), (None, Some(1)));
    assert!(one.bytes_stored >= none.bytes_stored);
    assert!(none.speeds[0].1 <= none.speeds[1].1);
}

#[test]
fn what_never_repeats_gets_the_longest_chunks_or_the_default() {
    let (analysis, _) = analysis(&[noise(3, 1 << 20)], &tried()).unwrap();
    // 64 bytes of 8 KiB are less than 1 %.
    assert_eq!(analysis.recommended.chunk_bytes, 8 << 10);
    assert_eq!(analysis.recommended.cap, None);
    assert!(analysis.recommended.cap_why.contains("several versions"));
}

#[test]
fn the_file_stands_alone_and_names_are_not_markup() {
    let (analysis, _) = analysis(&versions(3), &tried()).unwrap();
    let html = html(&analysis).unwrap();
    assert!(html.contains("&lt;2&gt;") && !html.contains("<2>"));
    assert_eq!(html.matches("<svg").count(), 4);
    let fetched = ["src=", "href=\"http", "@import", "url("];
    assert!(fetched.iter().all(|outside| !html.contains(outside)));
    for closed in ["svg", "table", "ul", "ol", "html", "body", "tr", "td"] {
        let opened =
            html.matches(&format!("<{closed}>")).count() + html.matches(&format!("<{closed} ")).count();
        assert_eq!(opened, html.matches(&format!("</{closed}>")).count(), "{closed}");
    }
}

#[test]
fn zeros_alone_and_sizes_without_the_default_are_told() {
    let error = analysis(&[vec![0; 100_000]], &tried()).unwrap_err().to_string();
    assert!(error.contains("no data"), "{error}");
    let without = Tried {
        chunk_bytes: vec![4 << 10],
        ..tried()
    };
    let error = analysis(&[noise(1, 10)], &without).unwrap_err().to_string();
    assert!(error.contains("default chunk size"), "{error}");
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
