//! Serves volumes by NBD.
