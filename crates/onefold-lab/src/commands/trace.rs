//! `onefold-lab trace`

use std::fs::{self, Metadata};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::{Result, bail};
use cli_support::progress;
use cli_support::{Code, Output};
use simulate::{Cutter, Cutting, SimulateError, Sink};

use super::folder::to_destor;
use super::{beside_trace, status, to_trace};
use crate::args::Trace;

/// The most bytes of a path in a file's name. Systems allow 255, which must include the number.
const NAME_BYTES_MAX: usize = 200;

pub(super) fn run(args: &Trace, output: Output) -> Result<Code> {
    let output = beside_trace(args.output.as_deref(), output)?;
    let mut cutter = Cutter::new(match args.image_kib {
        Some(kib) => Cutting::Fixed(kib << 10),
        None => Cutting::Content(args.chunk_kib << 10),
    })?;
    let (cancelled, done) = (cli_support::watch()?, AtomicU64::new(0));
    let mut replay = |written: &Metadata, sink: &mut dyn Sink| -> Result<(), SimulateError> {
        cutter.leave_out(written);
        args.paths.iter().try_for_each(|path| cutter.backup(path, sink))
    };
    let made = progress::beside(output, "trace", &|| status(&done), || {
        match (&args.output, &args.destor) {
            (Some(file), _) => to_trace(file, &cancelled, &done, &mut replay),
            (None, Some(folder)) => {
                let mut names = names(&args.paths).into_iter();
                let name = |_: &_| names.next().expect("a path is one backup");
                to_destor(folder, name, &cancelled, &done, |sink| {
                    let written = fs::metadata(folder).map_err(|source| SimulateError::Io {
                        what: folder.display().to_string(),
                        source,
                    })?;
                    replay(&written, sink)
                })
            }
            (None, None) => bail!("name the output with --output or --destor"),
        }
    })?;
    made.tell(output)
}

/// File names for backups of these paths. They are distinct, and sort in the order of the paths.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let digits = paths.len().to_string().len();
    let name = |(n, path): (usize, &PathBuf)| {
        let number = format!("{:0digits$}", n + 1);
        // `.` and `/` have no last component.
        let Some(last) = path.file_name() else {
            return number;
        };
        let mut last = last.to_string_lossy().into_owned();
        while last.len() > NAME_BYTES_MAX {
            last.pop();
        }
        format!("{number}-{last}")
    };
    paths.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_of_one_part_each_its_own_and_in_order() {
        let long = "é".repeat(127);
        let strange = Path::new(OsStr::from_bytes(b"a/\xffb"));
        let given = ["/", ".", "..", "a/b", "c/b/", "b", "a/..", &long, "x\ny", "z"];
        let mut paths: Vec<PathBuf> = given.iter().map(PathBuf::from).collect();
        paths.push(strange.to_owned());
        let names = names(&paths);
        let cut = format!("08-{}", "é".repeat(100));
        let wanted = [
            "01",
            "02",
            "03",
            "04-b",
            "05-b",
            "06-b",
            "07",
            &cut,
            "09-x\ny",
            "10-z",
            "11-\u{fffd}b",
        ];
        assert_eq!(names, wanted);
        assert!(names.is_sorted());
    }
}
