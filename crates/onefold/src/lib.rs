//! The library: opens a store and wires the floors below
