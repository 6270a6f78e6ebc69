//! The options by which a command chooses backups. The words and options are the same for every
//! command.

use std::path::PathBuf;

use clap::Args;

use super::typed::{TagList, name, path, tag_list};

/// Instead of a backup's id: the latest of the backups that the other options choose.
pub(crate) const LATEST: &str = "latest";
/// Instead of ids: every backup.
pub(crate) const ALL: &str = "all";

/// Which backups are meant.
#[derive(Debug, Args, Default)]
pub(crate) struct Filter {
    /// Only backups of this host (may be repeated: of any of them)
    #[arg(short = 'H', long, value_name = "HOST", value_parser = name)]
    pub(crate) host: Vec<String>,
    /// Only backups of this path, or of the stream of this name (may be repeated: of all of them)
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) path: Vec<PathBuf>,
    /// Only backups with this tag, or with all of these, separated by commas; empty: without tags
    /// (may be repeated: with any of them)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list)]
    pub(crate) tag: Vec<TagList>,
}

impl Filter {
    /// Whether any option is given.
    pub(crate) fn is_given(&self) -> bool {
        !self.host.is_empty() || !self.path.is_empty() || !self.tag.is_empty()
    }
}
