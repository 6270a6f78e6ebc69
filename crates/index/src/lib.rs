//! Hooks: fingerprint to container, on disk, rebuildable
