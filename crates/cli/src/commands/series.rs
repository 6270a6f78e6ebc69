//! `onefold series`

use anyhow::{Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, lossy};
use onefold::{
    ArchivalWindow, Layout, Series, SeriesId, SeriesList, SeriesName, SeriesSettings, SettingsOf, Store,
    shell_word, shell_words,
};
use serde::Serialize;

use crate::args::{self, Global, Named, Which};

/// Digits of an id to show.
const ID_DIGITS: usize = 12;

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    id: Option<String>,
    hostname: Option<String>,
    paths: Option<Vec<String>>,
    backups: Option<u64>,
    layout: &'static str,
    live_window: Option<u16>,
    archival_window: Option<u16>,
    segment_bytes: Option<u32>,
    optimize_after_backup: Option<bool>,
    repair_percent: u16,
    set: &'static str,
}

/// The printed facts of a series, or of the default.
struct Told {
    named: Option<(SeriesId, SeriesName, u64)>,
    settings: SeriesSettings,
    source: SettingsOf,
}

pub(crate) fn run(global: &Global, args: &args::Series, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    match args {
        args::Series::List => list(&store, output),
        args::Series::Show(which) => {
            let told = find(&store, which)?;
            show(&told, output)?;
            Ok(Code::Success)
        }
        args::Series::Set(set) => {
            let found = find(&store, &set.which)?;
            let change = set.change.change();
            let (settings, source) = match &found.named {
                Some((_, name, _)) => (store.set_series_settings(name, &change)?, SettingsOf::Series),
                None => (store.set_default_series_settings(&change)?, SettingsOf::Default),
            };
            let told = Told {
                settings,
                source,
                ..found
            };
            show(&told, output)?;
            if matches!(told.named, Some((_, _, 0))) {
                output.line("this series has no backup yet; what is set holds from its first one on")?;
            }
            let (beyond, whose) = match &told.named {
                Some((_, _, backups)) => (beyond(&told.settings, *backups), "of it"),
                None => {
                    let all = store.series()?.series;
                    let by_default = all.iter().filter(|series| series.source != SettingsOf::Series);
                    let each = by_default.map(|series| beyond(&series.settings, series.backups));
                    (each.sum(), "of series that have no settings of their own")
                }
            };
            if beyond > 0 {
                output.line(format!(
                    "`onefold optimize` will forget {} {whose}, but for held ones",
                    count(beyond, "backup", "backups")
                ))?;
            }
            Ok(Code::Success)
        }
    }
}

fn list(store: &Store, output: Output) -> Result<Code> {
    let list = store.series()?;
    let rows = list.series.into_iter().map(|series| Told {
        named: Some((series.id, series.name, series.backups)),
        settings: series.settings,
        source: series.source,
    });
    let rows: Vec<Told> = rows.collect();
    let (settings, source) = list.default;
    let default = Told {
        named: None,
        settings,
        source,
    };
    output.line(format!(
        "{:ID_DIGITS$}  {:>7}  {:36}  {:7}  host and paths",
        "id", "backups", "layout", "set for"
    ))?;
    for told in rows.iter().chain([&default]) {
        let (id, backups, what) = match &told.named {
            Some((id, name, backups)) => (short(*id), backups.to_string(), words(name)),
            None => ("default".to_owned(), String::new(), String::new()),
        };
        output.result(format!(
            "{id:ID_DIGITS$}  {backups:>7}  {:36}  {:7}  {what}",
            layout(&told.settings),
            word(told.source)
        ))?;
        output.object(&row(told))?;
    }
    output.line(count(rows.len() as u64, "series", "series"))?;
    for damaged in &list.damaged {
        output.warning(damaged, &format!("{damaged}; an older one counts: set it again"))?;
    }
    Ok(if list.damaged.is_empty() {
        Code::Success
    } else {
        Code::Failure
    })
}

fn show(told: &Told, output: Output) -> Result<()> {
    if let Some((id, name, backups)) = &told.named {
        output.result(format!("series   {id}"))?;
        output.result(format!("of       {}", words(name)))?;
        output.result(format!("backups  {backups}"))?;
    } else {
        output.result("default of every series for which nothing else is set")?;
    }
    output.result(format!("layout   {}", layout(&told.settings)))?;
    output.result(format!("set for  {}", word(told.source)))?;
    Ok(output.object(&row(told))?)
}

fn row(told: &Told) -> Row {
    let settings = &told.settings;
    let is_hybrid = settings.layout == Layout::Hybrid;
    let named = told.named.as_ref();
    Row {
        message_type: if named.is_some() {
            "series"
        } else {
            "series_default"
        },
        id: named.map(|(id, ..)| id.to_string()),
        hostname: named.map(|(_, name, _)| lossy(&name.host)),
        paths: named.map(|(_, name, _)| name.paths.iter().map(|path| lossy(path)).collect()),
        backups: named.map(|(_, _, backups)| *backups),
        layout: settings.layout.word(),
        live_window: is_hybrid.then_some(settings.live_window),
        archival_window: archival(settings),
        segment_bytes: is_hybrid.then_some(settings.segment_bytes),
        optimize_after_backup: settings.is_optimized().then_some(settings.optimize_after_backup),
        repair_percent: settings.repair_percent,
        set: word(told.source),
    }
}

fn layout(settings: &SeriesSettings) -> String {
    let after = if settings.optimize_after_backup {
        ", optimized"
    } else {
        ""
    };
    let repair = match settings.repair_percent {
        0 => String::new(),
        percent => format!(", repair {percent} %"),
    };
    match settings.layout {
        Layout::Inline if settings.repair_percent == 0 => settings.layout.word().to_owned(),
        Layout::Inline => format!("{}{repair}{after}", settings.layout.word()),
        Layout::Hybrid => format!(
            "{}, {} live, {}{}{repair}{after}",
            settings.layout.word(),
            settings.live_window,
            archival(settings).map_or_else(String::new, |count| format!("{count} archival, ")),
            bytes(settings.segment_bytes.into()),
        ),
    }
}

/// How many backups a series has beyond its windows.
fn beyond(settings: &SeriesSettings, backups: u64) -> u64 {
    let window = settings.retention_window();
    window.map_or(0, |window| backups.saturating_sub(window.into()))
}

/// How many archival backups stay, if there is a limit.
fn archival(settings: &SeriesSettings) -> Option<u16> {
    match settings.archival_window {
        ArchivalWindow::Newest(count) if settings.layout == Layout::Hybrid => Some(count.get()),
        _ => None,
    }
}

/// The source of the settings, in a word.
const fn word(source: SettingsOf) -> &'static str {
    match source {
        SettingsOf::Series => "series",
        SettingsOf::Default => "default",
        SettingsOf::Nothing => "nothing",
    }
}

fn short(id: SeriesId) -> String {
    id.to_string().chars().take(ID_DIGITS).collect()
}

fn words(name: &SeriesName) -> String {
    format!("{}: {}", shell_word(&name.host), shell_words(&name.paths))
}

/// The requested series. One that is named in full may have no backup yet.
fn find(store: &Store, which: &Which) -> Result<Told> {
    let list = store.series()?;
    if which.default {
        let (settings, source) = list.default;
        return Ok(Told {
            named: None,
            settings,
            source,
        });
    }
    match listed(store, &list, &which.named)? {
        Ok(series) => Ok(Told {
            named: Some((series.id, series.name.clone(), series.backups)),
            settings: series.settings.clone(),
            source: series.source,
        }),
        Err(name) => {
            let (settings, source) = store.series_settings(&name)?;
            Ok(Told {
                named: Some((store.series_id(&name), name, 0)),
                settings,
                source,
            })
        }
    }
}

/// The requested series, or the name of one that does not exist yet.
fn listed<'a>(
    store: &Store,
    list: &'a SeriesList,
    named: &Named,
) -> Result<std::result::Result<&'a Series, SeriesName>> {
    if let Some(text) = &named.id {
        return by_id(list, text).map(Ok);
    }
    let name = name(named)?;
    let id = store.series_id(&name);
    let found = list.series.iter().find(|series| series.id == id);
    Ok(found.ok_or(name))
}

/// The requested series, which must exist.
pub(super) fn existing(store: &Store, named: &Named) -> Result<Series> {
    match listed(store, &store.series()?, named)? {
        Ok(series) => Ok(series.clone()),
        Err(name) => bail!(
            "there is no series of {}; `onefold series list` shows them",
            words(&name)
        ),
    }
}

/// The one series whose id begins with this text.
fn by_id<'a>(list: &'a SeriesList, text: &str) -> Result<&'a Series> {
    let digits = text.to_ascii_lowercase();
    let mut found = list
        .series
        .iter()
        .filter(|series| series.id.to_string().starts_with(&digits));
    match (found.next(), found.count()) {
        (None, _) => bail!("no series has an id that begins with {text}; `onefold series list` shows them"),
        (Some(series), 0) => Ok(series),
        (Some(_), more) => bail!(
            "the ids of {} series begin with {text}; give more digits",
            more + 1
        ),
    }
}

/// The name that `backup` gives to the series of these paths, or of this stream.
fn name(named: &Named) -> Result<SeriesName> {
    let host = super::host(named.host.as_deref())?;
    if let Some(name) = &named.stdin_filename {
        return Ok(SeriesName {
            host,
            paths: vec![super::typed::stream_name(name)?.into_bytes()],
        });
    }
    for path in &named.path {
        super::typed::ensure_expanded(path)?;
    }
    Ok(SeriesName {
        host,
        paths: onefold::root_paths(&super::typed::here(&named.path)?, &named.path),
    })
}
