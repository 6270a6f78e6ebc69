//! Restores entries under a target folder.
//!
//! A listing may be hostile input, and the target may have planted links (INV-8). So every
//! component of every path is opened separately, relative to the folder before it, and links are
//! refused. No existing file is ever opened for writing: an entry that may be overwritten is
//! replaced by a new one. The worst effect of a hostile listing is that its entries are refused.
//!
//! A restore does not change what the user did not ask for. Existing folders above keep their
//! metadata. A link in the place of such a folder is the user's own. The restore follows it if it
//! belongs to the superuser or to the restoring user, and stays below the target ([`folders`]). It
//! refuses any other link.
//!
//! A folder is open to its owner alone while it is filled; its metadata is set when the last entry
//! and the last unfinished file below it are complete, deepest first. A file gets its name when it
//! is complete, with its metadata ([`arrive`]). A fault of metadata leaves the entry in place and
//! is collected ([`Restorer::take_faults`]); the call returns any other fault.
//!
//! One thread places entries, in listing order. Other threads may use its [`FileWriter`]s and its
//! [`PendingFile`]s. Nothing of a pending file exists before that.

mod arrive;
mod context;
mod file;
mod filter;
mod flags;
mod folders;
mod follow;
mod leftovers;
mod links;
mod metadata;
mod newborn;
mod options;
mod part;
mod pending;
mod remove;
mod reread;
mod seen;
mod stays;
mod subject;
mod surplus;
mod survey;
mod there;
mod whole;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{FileType, Mode, mknodat, symlinkat};
use rustix::io::Errno;

use crate::folder::Folder;
use crate::{Action, TreeError, order};
use arrive::Arrival;
use context::Context;
pub use file::FileWriter;
use filter::Filter;
use folders::{Place, Stack};
pub use links::PendingLink;
pub use options::{Include, Overwrite, Owners, RestoreOptions, Sparse};
pub use pending::PendingFile;
pub use reread::{Reread, Restored, drop_pages};
use stays::stays;
pub use surplus::{Surplus, SurplusObserver, SurplusReport};
pub use survey::{Fate, Survey};
use there::{finish_node, keeps, look, same_name};
pub use whole::WholeFile;

/// The result of placing an entry.
#[derive(Debug)]
pub enum Placed {
    /// It exists, with its metadata.
    Done,
    /// The folder exists. Its metadata follows.
    Folder,
    /// The file is open and empty, and has no name yet. It waits for its bytes.
    File(FileWriter),
    /// It was not restored.
    Skipped(SkipReason),
    /// A hard link to an entry that was not restored. To restore the link, make it an entry of its
    /// own, as described by the first name ([`PendingLink::make`]).
    MissingLinkTarget {
        /// The first name, as in the listing.
        target: Vec<u8>,
        /// The entry.
        link: PendingLink,
    },
}

/// The result of [`Restorer::begin`].
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one stands at a time, on the stack: a box for each file costs more"
)]
pub enum Begun {
    /// Any entry except a requested regular file.
    Placed(Placed),
    /// A requested regular file. Nothing of it exists yet.
    File(PendingFile),
}

/// Why an entry was not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It was not requested. Such a folder is made, with its metadata, once an entry in it is.
    NotIncluded,
    /// An entry exists, and [`Overwrite::Never`] was chosen.
    Exists,
    /// The existing entry is as new, and [`Overwrite::IfNewer`] was chosen.
    NotNewer,
    /// The existing entry is the same, and [`Overwrite::IfChanged`] was chosen.
    Unchanged,
}

/// Restores entries under a target folder. If it is dropped before [`Self::finish`], incomplete
/// folders keep the mode that they have while the restore fills them.
#[derive(Debug)]
pub struct Restorer {
    context: Arc<Context>,
    stack: Stack,
    filter: Filter,
    is_finished: bool,
}

impl Restorer {
    /// Begins under a target folder, and makes it if needed. The path of the target itself may lead
    /// over links.
    ///
    /// # Errors
    /// [`TreeError::System`] about the target.
    pub fn new(target: &Path, options: RestoreOptions) -> Result<Self, TreeError> {
        let path = target.as_os_str().as_bytes();
        let is_new = target.symlink_metadata().is_err();
        std::fs::create_dir_all(target).map_err(|e| {
            TreeError::system(
                path,
                Action::Create,
                Errno::from_io_error(&e).unwrap_or(Errno::IO),
            )
        })?;
        let top = Folder::top(path).map_err(|errno| TreeError::system(path, Action::Open, errno))?;
        let context = Arc::new(Context::new(&options, &top));
        Ok(Self {
            stack: Stack::new(top, is_new, context.clone()),
            context,
            filter: Filter::new(&options),
            is_finished: false,
        })
    }

    /// Faults of metadata since the last call.
    #[must_use]
    pub fn take_faults(&self) -> Vec<TreeError> {
        self.context.take_faults()
    }

    /// Ends placing, and sets the metadata of the remaining folders. Call it when every
    /// [`FileWriter`] is finished or dropped: a folder waits for the files in it. Returns the
    /// faults since [`Self::take_faults`].
    #[must_use]
    pub fn finish(mut self) -> Vec<TreeError> {
        self.is_finished = true;
        self.stack.clear();
        self.take_faults()
    }

    /// Restores an entry, or prepares it to be written. Entries must come in listing order. If the
    /// folder of an entry was never placed, a plain one is made.
    ///
    /// # Errors
    /// [`TreeError::UnsafePath`], [`TreeError::NotAFolder`], [`TreeError::System`]: the entry is
    /// not restored. Later entries may be.
    pub fn place(&mut self, entry: &ListingEntry) -> Result<Placed, TreeError> {
        match self.begin(entry)? {
            Begun::Placed(placed) => Ok(placed),
            Begun::File(file) => file.open(),
        }
    }

    /// Like [`Self::place`], but it creates nothing yet for a regular file, and does not check for
    /// an existing entry of its name. A hard link to a file that is still pending or unfinished has
    /// no target yet: finish that file first.
    ///
    /// # Errors
    /// Those of [`Self::place`].
    pub fn begin(&mut self, entry: &ListingEntry) -> Result<Begun, TreeError> {
        let context = self.context.clone();
        self.begin_or_fail(entry).inspect_err(|fault| context.note(fault))
    }

    fn begin_or_fail(&mut self, entry: &ListingEntry) -> Result<Begun, TreeError> {
        if !order::is_clean(&entry.path) {
            return Err(TreeError::UnsafePath {
                path: entry.path.clone(),
            });
        }
        let is_folder = entry.kind == EntryKind::Folder;
        let wanted = self.filter.wants(&entry.path, is_folder);
        let skipped = Ok(Begun::Placed(Placed::Skipped(SkipReason::NotIncluded)));
        let Some(place) = self.filter.below_base(&entry.path) else {
            return skipped;
        };
        let parts: Vec<Vec<u8>> = order::components(place).map(<[u8]>::to_vec).collect();
        let Some((name, parents)) = parts.split_last() else {
            return skipped;
        };
        self.stack.align(parents);
        if is_folder {
            let is_asked = wanted && !self.filter.is_above_sources(&entry.path);
            self.stack.announce(name, entry, is_asked);
            if !is_asked {
                return skipped;
            }
            part::as_restored(&self.context, entry)?;
            return match self.stack.innermost(&entry.path) {
                Err(TreeError::NotAFolder { .. }) if self.context.overwrite == Overwrite::Never => {
                    Ok(Begun::Placed(Placed::Skipped(SkipReason::Exists)))
                }
                other => other.map(|_| Begun::Placed(Placed::Folder)),
            };
        }
        if !wanted {
            return skipped;
        }
        let entry = &*part::as_restored(&self.context, entry)?;
        let parent = self.stack.innermost(&entry.path)?;
        match &entry.kind {
            EntryKind::File { .. } => Ok(Begun::File(PendingFile {
                context: self.context.clone(),
                parent,
                // The name of a part differs from that of the file.
                name: order::name(&entry.path).to_vec(),
                entry: entry.clone(),
            })),
            EntryKind::HardLink { target } => {
                self.place_link(&parent, name, entry, target).map(Begun::Placed)
            }
            _ => place_node(&self.context, &parent, name, entry).map(Begun::Placed),
        }
    }

    fn place_link(
        &mut self,
        parent: &Arc<Place>,
        name: &[u8],
        entry: &ListingEntry,
        target: &[u8],
    ) -> Result<Placed, TreeError> {
        if !order::is_clean(target) {
            return Err(TreeError::UnsafePath {
                path: target.to_vec(),
            });
        }
        let missing = || {
            Ok(Placed::MissingLinkTarget {
                target: target.to_vec(),
                link: PendingLink {
                    context: self.context.clone(),
                    parent: parent.clone(),
                    name: name.to_vec(),
                    entry: entry.clone(),
                },
            })
        };
        if !self.filter.wants_link_target(target) {
            return missing();
        }
        let Some(place) = self.filter.below_base(target) else {
            return missing();
        };
        let parts: Vec<&[u8]> = order::components(place).collect();
        let Some((first_name, folders)) = parts.split_last() else {
            return missing();
        };
        let first_parent = match self.stack.find(folders) {
            Ok(found) => found,
            Err(Errno::NOENT) => return missing(),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(TreeError::NotAFolder {
                    path: target.to_vec(),
                });
            }
            Err(errno) => return Err(TreeError::system(&entry.path[..], Action::Link, errno)),
        };
        if self.context.unfinished().contains(target) {
            return missing();
        }
        let first = (&first_parent, *first_name);
        if !links::may_be_first(&self.context, first, entry) {
            return missing();
        }
        match links::link(&self.context, first, (parent, name), entry)? {
            Some(placed) => Ok(placed),
            None => missing(),
        }
    }
}

/// Without [`Restorer::finish`] the restore was interrupted.
impl Drop for Restorer {
    fn drop(&mut self) {
        if !self.is_finished {
            self.context.break_off();
        }
    }
}

/// Places an entry that is no regular file, folder or hard link.
fn place_node(
    context: &Context,
    parent: &Place,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Placed, TreeError> {
    make_node(context, parent, name, entry).inspect_err(|fault| {
        context.note(fault);
        context.give_up(&entry.path);
    })
}

fn make_node(
    context: &Context,
    parent: &Place,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Placed, TreeError> {
    let path = &entry.path;
    let at = parent
        .folder
        .descriptor()
        .map_err(|e| TreeError::system(&path[..], Action::Open, e))?;
    if let Some(reason) = stays(context, parent, &at, name, entry)? {
        return Ok(Placed::Skipped(reason));
    }
    let own = Mode::RUSR | Mode::WUSR;
    let make =
        |create: &dyn Fn(&[u8]) -> Result<(), Errno>| arrive::make(context, path, Action::Create, create);
    let special = |kind: FileType, device: u64| make(&|name| mknodat(&*at, name, kind, own, device));
    let made = match &entry.kind {
        EntryKind::Symlink { target } => make(&|name| symlinkat(&target[..], &*at, name)),
        EntryKind::Fifo => special(FileType::Fifo, 0),
        EntryKind::Socket => special(FileType::Socket, 0),
        EntryKind::CharDevice { device } => special(FileType::CharacterDevice, *device),
        EntryKind::BlockDevice { device } => special(FileType::BlockDevice, *device),
        EntryKind::File { .. } | EntryKind::Folder | EntryKind::HardLink { .. } => {
            unreachable!("placed elsewhere")
        }
    }?;
    if let Arrival::Aside { name: aside, .. } = &made
        && let Err(fault) = finish_node(context, &at, aside, entry)
    {
        made.remove(&at).ok();
        return Err(fault);
    }
    let stays = arrive::settle(context, parent, &at, &made, name, entry)?;
    Ok(stays.map_or(Placed::Done, Placed::Skipped))
}

#[cfg(test)]
mod tests;
