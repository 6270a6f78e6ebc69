//! How old a listing may be: the moment since when it has to be made.

/// A moment in the life of one storage handle ([`crate::Storage::moment`]). Later moments are
/// greater. Moments of different handles say nothing about each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(crate) u64);

/// A listing that a caller is going to ask for ([`crate::Storage::look_ahead`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListingOf<'a> {
    /// The objects below a folder, as [`crate::Storage::list`] gives them.
    Objects(&'a str),
    /// The sub-folders of a folder, as [`crate::Storage::list_folders`] gives them.
    Folders(&'a str),
}
