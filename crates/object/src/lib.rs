//! Sealed small objects by name, revisions, and the store's config
