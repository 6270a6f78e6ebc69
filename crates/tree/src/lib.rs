//! Directory walk, listing and fences, operating-system metadata
