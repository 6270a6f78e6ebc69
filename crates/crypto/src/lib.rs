//! Fingerprints, sealing and key slots
