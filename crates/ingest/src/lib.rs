//! The pipeline: read, chunk, fingerprint, look up, pack, commit
