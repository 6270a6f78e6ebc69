//! The NBD protocol, without I/O.
