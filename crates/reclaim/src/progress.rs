//! How reclaiming is watched and stopped.

/// Told what is done, and asked whether to stop. Called from many threads.
pub trait Progress: Send + Sync {
    /// So many nodes were marked.
    fn add_nodes(&self, nodes: u64);

    /// How many containers removal will touch.
    fn set_total(&self, containers: u64);

    /// So many more of them are done.
    fn add_done(&self, containers: u64);

    /// Something could not be done, and the rest goes on.
    fn warn(&self, warning: &str);

    /// Whether to stop at the next step that may be the last.
    fn is_cancelled(&self) -> bool;
}

/// Nobody watches.
impl Progress for () {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn warn(&self, _: &str) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}
