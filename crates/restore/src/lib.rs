//! Plan and assemble: forward assembly area, prefetch, verification
