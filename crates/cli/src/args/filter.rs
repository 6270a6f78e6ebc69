//! Which backups are meant: the words and options that every command takes alike.

use std::path::PathBuf;

use clap::Args;

/// Instead of a backup's id: the last of those that are chosen among.
pub(crate) const LATEST: &str = "latest";
/// Instead of ids: every backup.
pub(crate) const ALL: &str = "all";

/// Which backups are meant.
#[derive(Debug, Args, Default)]
pub(crate) struct Filter {
    /// Only backups of this host (may be repeated: of any of them)
    #[arg(short = 'H', long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Only backups of this path (may be repeated: of all of them)
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// Only backups with this tag, or with all of these, separated by commas; empty: without tags (may be repeated: with any
    /// of them)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = whole_list)]
    pub(crate) tag: Vec<String>,
}

impl Filter {
    /// Whether it says anything.
    pub(crate) fn is_given(&self) -> bool {
        !self.host.is_empty() || !self.path.is_empty() || !self.tag.is_empty()
    }
}

/// A list of which a part is empty may have lost a word on its way here, and would choose more without it.
pub(super) fn whole_list(list: &str) -> Result<String, String> {
    if !list.is_empty() && list.split(',').any(str::is_empty) {
        return Err("a tag in this list is empty; it would choose more than is meant".to_owned());
    }
    Ok(list.to_owned())
}

/// A list of tags, separated by commas: as `backup` takes them, no tag has one.
pub(crate) fn tags(list: &str) -> Vec<String> {
    let tags = list.split(',').filter(|tag| !tag.is_empty());
    tags.map(str::to_owned).collect()
}
