//! Tests of pools and volumes against a plain model of bytes, also through crashes.

mod crash;
mod model;
mod random;
mod single;
mod world;
