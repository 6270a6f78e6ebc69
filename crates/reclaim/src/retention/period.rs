//! Periods; a rule keeps one backup of each.

/// What a rule keeps one backup of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Period {
    /// Each backup by itself.
    Each,
    /// An hour, UTC.
    Hour,
    /// A day, UTC.
    Day,
    /// An ISO week, from Monday on, UTC.
    Week,
    /// A month, UTC.
    Month,
    /// A year, UTC.
    Year,
}
