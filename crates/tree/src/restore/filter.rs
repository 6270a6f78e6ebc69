//! Chooses the entries to restore.

use std::sync::atomic::Ordering;

use super::{Include, RestoreOptions};
use crate::{Excludes, order};

/// The choice, applied along the listing.
#[derive(Debug)]
pub(super) struct Filter {
    include: Include,
    excludes: Excludes,
    base: Vec<u8>,
    sources: Vec<Vec<u8>>,
    /// The last folder that a pattern included.
    included_below: Option<Vec<u8>>,
    /// The last folder that a pattern left out.
    excluded_below: Option<Vec<u8>>,
}

impl Filter {
    pub(super) fn new(options: &RestoreOptions) -> Self {
        Self {
            include: options.include.clone(),
            excludes: options.excludes.clone(),
            base: options.base.clone(),
            sources: options.sources.clone(),
            included_below: None,
            excluded_below: None,
        }
    }

    /// Whether an entry is above all source paths of the backup, and was recorded only because of
    /// them.
    pub(super) fn is_above_sources(&self, path: &[u8]) -> bool {
        let is_in = |source: &Vec<u8>| order::is_within(path, source);
        !self.sources.is_empty() && !self.sources.iter().any(is_in)
    }

    /// Whether an entry is requested. Call it in listing order.
    pub(super) fn wants(&mut self, path: &[u8], is_folder: bool) -> bool {
        if below(self.excluded_below.as_ref(), path) {
            return false;
        }
        if self.excludes.excludes(path) {
            if is_folder {
                self.excluded_below = Some(path.to_vec());
            }
            return false;
        }
        if self.include.is_all() || self.names(path) || below(self.included_below.as_ref(), path) {
            return true;
        }
        let matches = self.include.patterns.excludes(path);
        if matches && is_folder {
            self.included_below = Some(path.to_vec());
        }
        matches
    }

    /// Whether the first name of a hard link was requested. It may be anywhere before the link in
    /// the listing.
    pub(super) fn wants_link_target(&self, path: &[u8]) -> bool {
        let mut prefixes = (1..=path.len())
            .filter(|&n| n == path.len() || path[n] == b'/')
            .map(|n| &path[..n]);
        if prefixes.clone().any(|prefix| self.excludes.excludes(prefix)) {
            return false;
        }
        self.include.is_all()
            || self.names(path)
            || prefixes.any(|prefix| self.include.patterns.excludes(prefix))
    }

    /// The part of a path below the base. `None`: the path is elsewhere.
    pub(super) fn below_base<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let base = self.base.strip_suffix(b"/").unwrap_or(&self.base);
        order::is_within(path, base).then(|| &path[base.len()..])
    }

    fn names(&self, path: &[u8]) -> bool {
        let mut is_named = false;
        for (number, wanted) in self.include.paths.iter().enumerate() {
            if order::is_within(path, wanted) {
                is_named = true;
                if let Some(met) = self.include.is_met.get(number) {
                    met.store(true, Ordering::Relaxed);
                }
            }
        }
        is_named
    }
}

fn below(folder: Option<&Vec<u8>>, path: &[u8]) -> bool {
    folder.is_some_and(|folder| order::is_within(path, folder))
}
