//! Periods: a rule keeps one backup of each.

/// The period of which a rule keeps one backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Period {
    /// Each backup is a period of its own.
    Each,
    /// An hour, UTC.
    Hour,
    /// A day, UTC.
    Day,
    /// An ISO week, from Monday, UTC.
    Week,
    /// A month, UTC.
    Month,
    /// A year, UTC.
    Year,
}
