//! Bytes to chunks, child fingerprints to node boundaries; values only
