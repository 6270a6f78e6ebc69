//! The settings of series: revisions of which the highest readable one counts. The first process to
//! create a revision wins.

use std::sync::Barrier;

use crate::common::{How, Process, assert_sound, back_up_bytes};
use format::names;
use onefold::{ArchivalWindow, Layout, SeriesName, SettingsChange, SettingsOf, Store};
use types::Revision;

fn name(path: &str) -> SeriesName {
    SeriesName {
        host: b"host".to_vec(),
        paths: vec![path.as_bytes().to_vec()],
    }
}

fn hybrid(live_window: u16) -> SettingsChange {
    SettingsChange::default()
        .layout(Some(Layout::Hybrid))
        .live_window(Some(live_window))
}

fn live(store: &Store, series: &SeriesName) -> (u16, SettingsOf) {
    let (settings, source) = store.series_settings(series).unwrap();
    (settings.live_window, source)
}

#[test]
fn a_series_uses_its_own_settings_then_the_default_then_inline() {
    let machine = Process::new(600);
    let store = machine.init();
    back_up_bytes(&store, "/one", b"one", &How::plain()).unwrap();
    back_up_bytes(&store, "/two", b"two", &How::plain()).unwrap();
    back_up_bytes(&store, "/two", b"three", &How::plain()).unwrap();
    let list = store.series().unwrap();
    let seen: Vec<_> = list
        .series
        .iter()
        .map(|it| (it.name.clone(), it.backups, it.source))
        .collect();
    let nothing = SettingsOf::Nothing;
    assert_eq!(seen, [(name("/one"), 1, nothing), (name("/two"), 2, nothing)]);
    assert!(list.series.iter().all(|it| it.settings.layout == Layout::Inline));
    assert!(
        machine.names(names::SERIES_FOLDER).is_empty(),
        "reading sets nothing"
    );

    let set = store.set_default_series_settings(&hybrid(3)).unwrap();
    assert_eq!((set.name, set.layout, set.live_window), (None, Layout::Hybrid, 3));
    assert_eq!(live(&store, &name("/one")), (3, SettingsOf::Default));
    let set = store.set_series_settings(&name("/new"), &hybrid(7)).unwrap();
    assert_eq!(set.name, Some(name("/new")));
    // The settings of one series concern only that series, which does not follow the default.
    store.set_default_series_settings(&hybrid(4)).unwrap();
    let list = machine.open().series().unwrap();
    let seen: Vec<_> = list
        .series
        .iter()
        .map(|it| (it.name.clone(), it.backups, it.settings.live_window, it.source))
        .collect();
    let expected = [
        (name("/new"), 0, 7, SettingsOf::Series),
        (name("/one"), 1, 4, SettingsOf::Default),
        (name("/two"), 2, 4, SettingsOf::Default),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        (list.default.0.live_window, list.default.1),
        (4, SettingsOf::Default)
    );
    assert_sound(&store, "settings are objects that are known");
    let report = back_up_bytes(&store, "/new", b"four", &How::plain()).unwrap();
    assert_eq!((report.settings.live_window, report.warnings.len()), (7, 0));
}

#[test]
fn a_changed_setting_is_a_revision_and_an_unchanged_one_is_none() {
    let machine = Process::new(601);
    let store = machine.init();
    let series = name("/one");
    store.set_series_settings(&series, &hybrid(2)).unwrap();
    store.set_series_settings(&series, &hybrid(2)).unwrap();
    assert_eq!(
        machine.names(names::SERIES_FOLDER).len(),
        1,
        "nothing was changed"
    );
    let inline = SettingsChange::default().layout(Some(Layout::Inline));
    store.set_series_settings(&series, &inline).unwrap();
    assert_eq!(machine.names(names::SERIES_FOLDER).len(), 2);
    // Values that have no effect now stay, for when they have one again.
    let again = SettingsChange::default().layout(Some(Layout::Hybrid));
    assert_eq!(store.set_series_settings(&series, &again).unwrap().live_window, 2);
    let id = store.series_id(&series);
    let newest = names::settings(Some(id), Revision::new(2).unwrap());
    assert!(machine.storage.is_durable(&newest));
}

#[test]
fn settings_that_no_series_can_have_are_refused() {
    let machine = Process::new(602);
    let store = machine.init();
    let with = |layout, live_window, segment_bytes| {
        SettingsChange::default()
            .layout(layout)
            .live_window(live_window)
            .segment_bytes(segment_bytes)
    };
    let layout = Some(Layout::Hybrid);
    let archival = |layout| {
        SettingsChange::default()
            .layout(layout)
            .archival_window(Some(ArchivalWindow::All))
    };
    for (change, says) in [
        (with(None, Some(2), None), "inline"),
        (
            archival(None),
            "an archival window says nothing for layout inline",
        ),
        (archival(Some(Layout::Inline)), "inline"),
        (with(Some(Layout::Inline), None, Some(4 << 20)), "inline"),
        (with(layout, Some(0), None), "at least one"),
        (with(layout, None, Some(3 << 20)), "power of two"),
        (with(layout, None, Some(32 << 10)), "from 65536 to"),
        // With chunks of 1 KiB, a node has fewer children.
        (with(layout, None, Some(64 << 20)), "to 16777216"),
    ] {
        let error = store
            .set_default_series_settings(&change)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{change:?}: {error}");
    }
    assert!(machine.names(names::SERIES_FOLDER).is_empty());
}

/// Each of two writers changes the other one's result, so no change is lost.
#[test]
fn two_simultaneous_changes_of_settings_both_succeed() {
    let machine = Process::new(603);
    machine.init().set_default_series_settings(&hybrid(1)).unwrap();
    let begin = Barrier::new(2);
    let change = |seed: u64, change: SettingsChange| {
        let store = machine.beside(seed).open();
        begin.wait();
        store.set_default_series_settings(&change).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let live_window = Some(9);
            change(604, SettingsChange::default().live_window(live_window));
        });
        scope.spawn(|| {
            let segment_bytes = Some(8 << 20);
            change(605, SettingsChange::default().segment_bytes(segment_bytes));
        });
    });
    let (settings, _) = machine.open().series().unwrap().default;
    assert_eq!((settings.live_window, settings.segment_bytes), (9, 8 << 20));
}

/// The newest readable settings count. A backup warns, and setting any value mends it.
#[test]
fn unreadable_settings_of_a_series_do_not_count() {
    let machine = Process::new(606);
    let store = machine.init();
    store.set_default_series_settings(&hybrid(2)).unwrap();
    store.set_default_series_settings(&hybrid(3)).unwrap();
    let newest = names::settings(None, Revision::new(1).unwrap());
    assert!(machine.storage.damage(&newest, |bytes| bytes[60] ^= 1));
    assert_eq!(live(&store, &name("/one")), (2, SettingsOf::Default));
    assert_eq!(store.series().unwrap().damaged.len(), 1);
    let report = back_up_bytes(&store, "/one", b"one", &How::plain()).unwrap();
    assert_eq!(report.settings.live_window, 2);
    assert!(
        report
            .warnings
            .iter()
            .any(|said| said.to_string().contains(newest.as_str())),
        "{:?}",
        report.warnings
    );
    let checked = store
        .check(onefold::ReadData::Share(0.0), &onefold::Monitor::default())
        .unwrap();
    assert!(format!("{checked:?}").contains(newest.as_str()), "{checked:?}");
    assert_eq!(
        store.set_default_series_settings(&hybrid(3)).unwrap().live_window,
        3
    );
    assert_eq!(live(&store, &name("/one")), (3, SettingsOf::Default));
    machine.take_away(&names::settings(None, Revision::new(2).unwrap()));
    assert_eq!(live(&store, &name("/one")), (2, SettingsOf::Default));
    back_up_bytes(&store, "/one", b"two", &How::plain()).unwrap();
}
