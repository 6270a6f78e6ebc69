//! How often contents occur: so many distinct contents have so many duplicates each.
//!
//! The text is that of DEDISbench: each line has the number of duplicates of a content, and the
//! number of contents that have so many. A content with 3 duplicates is in 4 blocks.

use crate::error::LabError;
use crate::rng::Rng;

/// A distribution of contents. It never changes, and any number of threads may draw from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// In the order of the text, without empty classes.
    classes: Vec<Class>,
}

/// Contents that have equally many duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    /// The blocks of this class and of those before it.
    end: u64,
    /// The blocks of each content.
    blocks_each: u64,
    /// The number of its first content.
    first_content: u64,
}

/// A content that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Drawn {
    /// A content that occurs once.
    Unique,
    /// The content with this number, which occurs more than once.
    Shared(u64),
}

/// Close to the file `dist_highperf` of DEDISbench: a storage system whose files change often. Of
/// its 400.6 million blocks, 68.5 % are of a content of their own, 16.1 % have one single content,
/// and most of the rest have two or three blocks a content. The steps between are rounded.
const HIGH_PERFORMANCE: &[(u64, u64)] = &[
    (0, 274_600_000),
    (1, 24_500_000),
    (5, 1_170_000),
    (19, 194_000),
    (190, 1_500),
    (2_900, 66),
    (18_000, 73),
    (64_310_000, 1),
];

impl Distribution {
    /// The built-in distribution.
    pub(crate) fn high_performance() -> Self {
        Self::of(HIGH_PERFORMANCE.iter().copied()).expect("the sum fits 64 bits")
    }

    /// The distribution that a text describes. `name` is for messages.
    ///
    /// # Errors
    /// `Settings` if a line is not two numbers, or there is no block.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, LabError> {
        let mut pairs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pair = match words[..] {
                [] => continue,
                [duplicates, contents] => duplicates.parse().ok().zip(contents.parse().ok()),
                _ => None,
            };
            pairs.push(pair.ok_or_else(|| {
                LabError::settings(format!(
                    "{name}, line {}: expected two numbers, those of duplicates and of contents",
                    number + 1
                ))
            })?);
        }
        let distribution = Self::of(pairs.into_iter()).ok_or_else(|| {
            LabError::settings(format!("{name}: the number of blocks does not fit 64 bits"))
        })?;
        if distribution.classes.is_empty() {
            return Err(LabError::settings(format!("{name}: there is no block in it")));
        }
        Ok(distribution)
    }

    fn of(pairs: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let (mut end, mut first_content, mut classes) = (0_u64, 0_u64, Vec::new());
        for (duplicates, contents) in pairs.filter(|(_, contents)| *contents > 0) {
            let blocks_each = duplicates.checked_add(1)?;
            end = end.checked_add(blocks_each.checked_mul(contents)?)?;
            classes.push(Class {
                end,
                blocks_each,
                first_content,
            });
            first_content = first_content.checked_add(contents)?;
        }
        Some(Self { classes })
    }

    /// Draws the content of a block: every block of the distribution is as likely as any other.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Drawn {
        let blocks = self.classes.last().map_or(1, |class| class.end);
        let block = rng.below(blocks);
        let at = self.classes.partition_point(|class| class.end <= block);
        let class = self.classes[at];
        if class.blocks_each == 1 {
            return Drawn::Unique;
        }
        let begin = if at == 0 { 0 } else { self.classes[at - 1].end };
        Drawn::Shared(class.first_content + (block - begin) / class.blocks_each)
    }
}
