//! Hostile listings, and targets that an attacker prepared (INV-8).

use std::fs;
use std::os::unix::fs::symlink;

use format::listing::EntryKind;
use proptest::prelude::*;

use super::{Captured, RestoreOptions, Restorer, file, folder, restore};
use crate::testing::entry;
use crate::{Overwrite, TreeError};

/// A target inside a folder whose other content must stay as it is.
struct Scene {
    outer: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("outside")).unwrap();
        fs::create_dir(outer.path().join("target")).unwrap();
        fs::write(outer.path().join("outside/victim"), "untouched").unwrap();
        Self { outer }
    }

    fn restore(&self, overwrite: Overwrite, entries: &[Captured]) -> Vec<TreeError> {
        let options = RestoreOptions {
            overwrite,
            ..RestoreOptions::default()
        };
        let faults = restore(
            Restorer::new(&self.outer.path().join("target"), options).unwrap(),
            entries,
        );
        let mut names: Vec<_> = fs::read_dir(self.outer.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["outside", "target"]);
        let outside: Vec<_> = fs::read_dir(self.outer.path().join("outside")).unwrap().collect();
        assert_eq!(outside.len(), 1);
        assert_eq!(
            fs::read(self.outer.path().join("outside/victim")).unwrap(),
            b"untouched"
        );
        faults
    }

    fn link(&self, path: &str) -> Captured {
        let target = self
            .outer
            .path()
            .join("outside")
            .to_str()
            .unwrap()
            .as_bytes()
            .to_vec();
        (entry(path, EntryKind::Symlink { target }), Vec::new())
    }
}

fn hard_link(path: &str, target: &str) -> Captured {
    (
        entry(
            path,
            EntryKind::HardLink {
                target: target.as_bytes().to_vec(),
            },
        ),
        Vec::new(),
    )
}

#[test]
fn unclean_paths_are_refused() {
    let scene = Scene::new();
    let paths = [
        "",
        "x",
        "../x",
        "/..",
        "/../outside/x",
        "/a/../../outside/x",
        "//x",
        "/a//x",
        "/./x",
        "/a/",
        "/a\0b",
    ];
    for path in paths {
        for placed in [
            folder(path),
            file(path, b"x"),
            hard_link(path, "/ok"),
            scene.link(path),
        ] {
            let faults = scene.restore(Overwrite::Always, &[placed]);
            assert!(
                matches!(faults[..], [TreeError::UnsafePath { .. }]),
                "{path:?}: {faults:?}"
            );
        }
    }
}

#[test]
fn nothing_is_written_through_a_link_of_the_listing() {
    let scene = Scene::new();
    let entries = [
        scene.link("/l"),
        file("/l/victim", b"overwritten"),
        file("/l/new", b"x"),
        folder("/l/folder"),
        hard_link("/l/hard", "/l/victim"),
        scene.link("/l/link"),
        hard_link("/stolen", "/l/victim"),
    ];
    let faults = scene.restore(Overwrite::Always, &entries);
    assert_eq!(faults.len(), 6);
    assert!(
        faults.iter().all(|f| matches!(f, TreeError::NotAFolder { .. })),
        "{faults:?}"
    );
    assert!(!scene.outer.path().join("target/stolen").exists());
}

#[test]
fn nothing_is_written_through_planted_links() {
    for overwrite in [
        Overwrite::Always,
        Overwrite::IfChanged,
        Overwrite::IfNewer,
        Overwrite::Never,
    ] {
        let scene = Scene::new();
        let target = scene.outer.path().join("target");
        symlink("../outside", target.join("d")).unwrap();
        symlink("../outside/victim", target.join("f")).unwrap();
        symlink("../outside/absent", target.join("g")).unwrap();
        let entries = [
            folder("/d"),
            file("/d/victim", b"x"),
            file("/d/x", b"x"),
            file("/f", b"overwritten"),
            file("/g", b"x"),
        ];
        scene.restore(overwrite, &entries);
        let replaced = fs::symlink_metadata(target.join("d")).unwrap().is_dir();
        assert_eq!(
            replaced,
            matches!(overwrite, Overwrite::Always | Overwrite::IfChanged)
        );
    }
}

#[test]
fn links_lead_only_to_files_in_the_target() {
    let scene = Scene::new();
    let entries = [
        hard_link("/a", "/../outside/victim"),
        hard_link("/b", "outside/victim"),
        scene.link("/c"),
        hard_link("/d", "/c"),
        file("/d/victim", b"overwritten"),
        folder("/e"),
        hard_link("/e/f", "/e"),
        hard_link("/g", "/"),
        hard_link("/h", "/h"),
        hard_link("/i", "/e"),
    ];
    let faults = scene.restore(Overwrite::Always, &entries);
    assert!(
        matches!(
            faults[..],
            [
                TreeError::UnsafePath { .. },
                TreeError::UnsafePath { .. },
                TreeError::NotAFolder { .. }
            ]
        ),
        "{faults:?}"
    );
    let target = scene.outer.path().join("target");
    let names = |folder| fs::read_dir(target.join(folder)).unwrap().count();
    assert_eq!((names("."), names("e")), (3, 0), "c, its other name d, and e");
    // A name of the link does not name its target.
    assert!(fs::symlink_metadata(target.join("d")).unwrap().is_symlink());
}

#[test]
fn a_folder_that_becomes_a_link_is_entered_no_more() {
    let scene = Scene::new();
    let entries = [
        folder("/d"),
        file("/d/x", b"x"),
        folder("/e"),
        scene.link("/d"),
        scene.link("/e"),
        file("/e/victim", b"overwritten"),
    ];
    let faults = scene.restore(Overwrite::Always, &entries);
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn absurd_metadata_is_at_worst_a_fault() {
    let scene = Scene::new();
    let absurd = |path: &str| {
        let (mut e, content) = file(path, b"x");
        e.xattrs = vec![
            (b"nonsense".to_vec(), vec![1]),
            (b"user.".to_vec(), vec![2; 1 << 20]),
        ];
        e.mode = u32::MAX;
        e.mtime = types::FileTime::new(i64::MIN, 0);
        (e, content)
    };
    let huge = entry(
        "/huge",
        EntryKind::File {
            len: u64::MAX,
            holes: vec![(0, u64::MAX)],
        },
    );
    let odd = entry(
        "/odd",
        EntryKind::File {
            len: 20,
            holes: vec![(9, 3), (2, u64::MAX), (5, 0), (4, 1)],
        },
    );
    let faults = scene.restore(
        Overwrite::Always,
        &[absurd("/a"), (huge, Vec::new()), (odd, vec![7; 20])],
    );
    assert!(!faults.is_empty());
    assert_eq!(fs::read(scene.outer.path().join("target/odd")).unwrap(), [7; 20]);
    let long = format!("/{}", "n".repeat(5000));
    assert_eq!(scene.restore(Overwrite::Always, &[file(&long, b"x")]).len(), 1);
}

fn any_entry() -> impl Strategy<Value = (u8, String, String)> {
    let path = || {
        prop::collection::vec(
            prop::sample::select(vec!["a", "b", "..", ".", "", "outside", "victim"]),
            1..4,
        )
    };
    let joined = |parts: Vec<&str>| format!("/{}", parts.join("/"));
    (0..5u8, path().prop_map(joined), path().prop_map(joined))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    /// Whatever the listing says, in whatever order, nothing outside the target changes.
    #[test]
    fn no_listing_escapes(list in prop::collection::vec(any_entry(), 0..14), choice in 0..4usize) {
        let scene = Scene::new();
        let entries: Vec<Captured> = list
            .iter()
            .map(|(kind, path, target)| match kind {
                0 => folder(path),
                1 => file(path, b"overwritten"),
                2 => hard_link(path, target),
                3 => scene.link(path),
                _ => (entry(path, EntryKind::Symlink { target: format!("..{target}").into() }), Vec::new()),
            })
            .collect();
        let choices = [Overwrite::Always, Overwrite::IfChanged, Overwrite::IfNewer, Overwrite::Never];
        scene.restore(choices[choice], &entries);
    }
}
