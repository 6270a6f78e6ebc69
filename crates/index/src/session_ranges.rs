//! Sets of sessions as ranges. They are short, since sessions are numbered in order.

use types::SessionId;

/// Joins adjacent ranges (first, count). Returns them in ascending order.
pub(crate) fn join(ranges: impl IntoIterator<Item = (SessionId, u64)>) -> Vec<(SessionId, u64)> {
    let mut sorted: Vec<_> = ranges.into_iter().filter(|range| range.1 > 0).collect();
    sorted.sort_unstable();
    let mut out: Vec<(SessionId, u64)> = Vec::new();
    for (first, count) in sorted {
        let end = first.get().saturating_add(count);
        match out.last_mut() {
            Some(last) if last.0.get().saturating_add(last.1) >= first.get() => {
                last.1 = last.1.max(end - last.0.get());
            }
            _ => out.push((first, count)),
        }
    }
    out
}

/// Whether the joined ranges include the session.
pub(crate) fn holds(ranges: &[(SessionId, u64)], session: SessionId) -> bool {
    let after = ranges.partition_point(|range| range.0 <= session);
    let range = after.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|range| session.get() - range.0.get() < range.1)
}
