//! Which scenario shows what a rule of volumes is for.

use super::properties::Violation;
use super::rules::Rule;

/// One rule, switched off in one scenario.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Switched off.
    pub rule: Rule,
    /// What must be found; `None` where the rule proved redundant in this setting.
    pub finds: Option<Violation>,
}

/// Every rule has at least one case that finds a violation.
pub const CASES: &[Case] = &[];
