//! Names each file of a backup, as `--verbose=2` asks for.

use cli_support::output::{Output, bytes};
use onefold::{FileFate, ListingEntry, Monitor};
use serde::Serialize;

#[derive(Serialize)]
struct File<'a> {
    message_type: &'static str,
    action: &'static str,
    item: std::borrow::Cow<'a, str>,
    data_size: u64,
}

/// Prints each file, and whether it is new.
pub(super) fn tell(monitor: &Monitor, output: Output) {
    monitor.counters.observe_files(Box::new(move |fate, file| {
        // Standard output is closed: nobody can be told.
        drop(print(output, fate, file));
    }));
}

fn print(output: Output, fate: FileFate, file: &ListingEntry) -> std::io::Result<()> {
    let (action, shown) = match fate {
        FileFate::New => ("new", "new       "),
        FileFate::Changed => ("modified", "changed   "),
        FileFate::Unchanged => ("unchanged", "unchanged "),
        FileFate::Kept => ("kept", "kept      "),
    };
    let path = String::from_utf8_lossy(&file.path);
    if output.json {
        return output.object(&File {
            message_type: "verbose_status",
            action,
            item: path,
            data_size: file.file_len(),
        });
    }
    match fate {
        FileFate::Unchanged => output.line(format!("{shown}{path}")),
        _ => output.line(format!("{shown}{path}, {}", bytes(file.file_len()))),
    }
}
