//! Backups that have the same bytes in different places: a rewrite is for one of them only.
//!
//! A rewrite names its backups by fingerprints ([`super::targets`]). So of two backups with the
//! same streams, each could get the trees made from the other one's data. If the data of one is
//! damaged, known or not, and the data of the other is whole, prune would remove the last good
//! copy. So only the first of such backups is rewritten, and the others stay as they are. Backups
//! with equal roots are not concerned.

use std::collections::HashMap;

use format::manifest::StreamRoot;
use types::Fingerprint;

/// The streams of backups, none of which could get trees made from another one's data.
#[derive(Default)]
pub(crate) struct DistinctBackups<'a> {
    /// Every run of streams that begins with a stream of this fingerprint, up to the last stream of
    /// its backup.
    from: HashMap<Fingerprint, Vec<&'a [StreamRoot]>>,
    /// All streams of the backups whose first stream has this fingerprint.
    all: HashMap<Fingerprint, Vec<&'a [StreamRoot]>>,
}

impl<'a> DistinctBackups<'a> {
    /// Adds the streams of a backup, unless they or a part of them have the bytes of another
    /// backup's streams in other places. Returns whether the backup may be rewritten.
    pub(crate) fn add(&mut self, streams: &'a [StreamRoot]) -> bool {
        let Some(first) = streams.first() else {
            return true;
        };
        if of(&self.all, first).contains(&streams) {
            return true;
        }
        let mut those = of(&self.from, first).iter();
        let would_get = those.any(|from| is_elsewhere(streams, from));
        let would_give = || {
            (0..streams.len()).any(|at| {
                let mut those = of(&self.all, &streams[at]).iter();
                those.any(|all| is_elsewhere(all, &streams[at..]))
            })
        };
        if would_get || would_give() {
            return false;
        }
        for at in 0..streams.len() {
            let from = self.from.entry(streams[at].fingerprint).or_default();
            from.push(&streams[at..]);
        }
        self.all.entry(first.fingerprint).or_default().push(streams);
        true
    }
}

/// The entries that begin with a stream of this fingerprint.
fn of<'m, 'a>(
    map: &'m HashMap<Fingerprint, Vec<&'a [StreamRoot]>>,
    root: &StreamRoot,
) -> &'m [&'a [StreamRoot]] {
    map.get(&root.fingerprint).map_or(&[], Vec::as_slice)
}

/// Whether the first of `others` have the bytes of these streams in other places.
fn is_elsewhere(streams: &[StreamRoot], others: &[StreamRoot]) -> bool {
    others.get(..streams.len()).is_some_and(|others| {
        let pairs = || streams.iter().zip(others);
        pairs().all(|(one, other)| known(one) == known(other)) && streams != others
    })
}

/// The fields that identify the bytes of a stream.
pub(super) fn known(root: &StreamRoot) -> impl PartialEq + use<> {
    (root.role, root.level, root.fingerprint, root.len)
}
