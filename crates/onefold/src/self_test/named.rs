//! Names of the objects that probes put.

use types::ObjectName;

/// The name, which a probe has written in the program.
pub(super) fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("the names of probes are names")
}
