//! The requested entries of a listing.

use tree::{RestoreOptions, order};

/// Requested entries, by their paths. Paths are in listing order, and none is within another.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The last path first.
    targets: Vec<Target>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: Vec<u8>,
    /// Whether everything below it is requested too.
    pub(super) with_below: bool,
}

impl Wanted {
    /// All entries.
    #[must_use]
    pub fn all() -> Self {
        Self::below([b"/".to_vec()])
    }

    /// The entries of these paths, and everything below them.
    #[must_use]
    pub fn below(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::of(paths.into_iter().map(|path| Target {
            path,
            with_below: true,
        }))
    }

    /// Only the entries of these paths.
    #[must_use]
    pub fn just(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::of(paths.into_iter().map(|path| Target {
            path,
            with_below: false,
        }))
    }

    /// The entries that a restore needs: possible matches of its patterns, and the folders above.
    #[must_use]
    pub fn by_restore(options: &RestoreOptions) -> Self {
        let base = &options.base[..];
        let asked = options.include.within();
        let asked = asked.unwrap_or_else(|| vec![b"/".to_vec()]);
        let mut targets = Vec::new();
        for path in asked {
            let path = if order::is_within(&path, base) {
                path
            } else if order::is_within(base, &path) {
                base.to_vec()
            } else {
                continue;
            };
            let above = (0..path.len()).filter(|&at| path[at] == b'/' && path.len() > 1);
            let above = above.map(|at| path[..at.max(1)].to_vec());
            targets.extend(
                above
                    .filter(|folder| order::is_within(folder, base))
                    .map(|path| Target {
                        path,
                        with_below: false,
                    }),
            );
            targets.push(Target {
                path,
                with_below: true,
            });
        }
        Self::of(targets)
    }

    fn of(targets: impl IntoIterator<Item = Target>) -> Self {
        let mut targets: Vec<Target> = targets.into_iter().collect();
        // Of equal paths, the target with everything below it comes first.
        targets.sort_by(|a, b| {
            let by_path = order::compare(&a.path, &b.path);
            by_path.then(b.with_below.cmp(&a.with_below))
        });
        let mut kept: Vec<Target> = Vec::with_capacity(targets.len());
        for target in targets {
            let is_held = kept.last().is_some_and(|last| {
                last.path == target.path || last.with_below && order::is_within(&target.path, &last.path)
            });
            if !is_held {
                kept.push(target);
            }
        }
        kept.reverse();
        Self { targets: kept }
    }

    /// The current path.
    pub(super) fn next(&self) -> Option<&Target> {
        self.targets.last()
    }

    /// Moves on to the next path.
    pub(super) fn pass(&mut self) {
        self.targets.pop();
    }
}
