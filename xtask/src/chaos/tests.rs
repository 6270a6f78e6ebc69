//! A short run, and one in which the runner must notice a loss.

use super::*;

/// The program that the workspace's tests have built, or a new build.
fn binary() -> PathBuf {
    let built = std::env::current_exe().unwrap().with_file_name("../onefold");
    if built.exists() {
        built.canonicalize().unwrap()
    } else {
        build(false).unwrap()
    }
}

fn played(seed: u64, steps: u64, sabotage: Option<(u64, Sabotage)>) -> (Judged, String) {
    let work = tempfile::tempdir().unwrap();
    let plan = Plan {
        seed,
        steps,
        plain: true,
        sabotage,
    };
    let mut run = Run::new(plan, binary(), work.path()).unwrap();
    let judged = whole(&mut run);
    (judged, fs::read_to_string(work.path().join("journal")).unwrap())
}

#[test]
fn a_short_run_ends_well() {
    let (judged, journal) = played(3, 8, None);
    assert!(judged.is_ok(), "{judged:?}\n{journal}");
    assert!(journal.contains("# step 8"), "{journal}");
}

#[test]
fn containers_that_the_runner_deletes_are_missed() {
    let (judged, journal) = played(3, 8, Some((8, Sabotage::Containers)));
    let Err(Stop::Fault(fault)) = &judged else {
        panic!("{judged:?}\n{journal}");
    };
    assert_eq!(fault.kind, "lost", "{fault:?}");
}

#[test]
fn a_manifest_that_the_runner_deletes_is_missed() {
    let (judged, journal) = played(3, 8, Some((7, Sabotage::Manifest)));
    let Err(Stop::Fault(fault)) = &judged else {
        panic!("{judged:?}\n{journal}");
    };
    assert_eq!(fault.kind, "lost", "{fault:?}");
}

#[test]
fn damage_is_tried_on_copies() {
    let work = tempfile::tempdir().unwrap();
    let plan = Plan {
        seed: 3,
        steps: 3,
        plain: true,
        sabotage: None,
    };
    let mut run = Run::new(plan, binary(), work.path()).unwrap();
    let (_, cases) = damage::damage(&mut run, 1).unwrap();
    assert_eq!(cases, 1);
}

#[test]
fn options_are_read_and_others_are_refused() {
    let parse = |args: &[&str]| Options::parse(args.iter().map(ToString::to_string));
    assert_eq!(parse(&["--seed", "7", "--seconds", "3"]).unwrap().seed, 7);
    assert_eq!(parse(&[]).unwrap().runs, Some(1));
    assert!(parse(&["--sed", "7"]).is_err());
    assert!(parse(&["--seed"]).is_err());
}
