//! The operations on any repository: backing up, listing, restoring, forgetting and the rest.
//!
//! They run where they are called. The [`Repository`](crate::repository::Repository) says where the
//! store is. [`Store`](crate::Store) has the same operations as methods.

pub use crate::backup::{back_up_stream, back_up_tree};
pub use crate::calls::{check, forget, hold, layouts, tag};
pub use crate::dump::dump;
pub use crate::repository::retried;
pub use crate::restore::{list_entries, restore};
