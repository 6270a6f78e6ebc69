//! What a token allows.

use std::fmt;
use std::str::FromStr;

/// A right of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Make backups.
    Write,
    /// List backups.
    List,
    /// Read the content of backups.
    Read,
    /// Forget backups, and change tags: rules decide by tags what is forgotten.
    Forget,
    /// Hold backups, and end holds.
    Hold,
    /// Make, change and delete any object of a vault.
    Maintain,
}

const ALL: [(Right, &str); 6] = [
    (Right::Write, "write"),
    (Right::List, "list"),
    (Right::Read, "read"),
    (Right::Forget, "forget"),
    (Right::Hold, "hold"),
    (Right::Maintain, "maintain"),
];

/// Some rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

impl Right {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        ALL[self as usize].1
    }
}

impl Rights {
    /// Every right.
    pub const ALL: Self = Self((1 << ALL.len()) - 1);

    /// Whether the right is among them.
    #[must_use]
    pub fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// With this one too.
    #[must_use]
    pub fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = ALL.iter().filter(|(right, _)| self.has(*right));
        let words: Vec<&str> = held.map(|(_, word)| *word).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rights = Self::default();
        for word in text.split(',').map(str::trim) {
            let right = ALL.iter().find(|(_, known)| *known == word);
            let (right, _) = right.ok_or_else(|| {
                let known = ALL.map(|(_, word)| word).join(", ");
                format!("{word:?} is no right; there are {known}")
            })?;
            rights = rights.with(*right);
        }
        Ok(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_and_shown() {
        let rights: Rights = "read, write".parse().unwrap();
        assert_eq!(rights.to_string(), "write,read");
        assert!(rights.has(Right::Read) && !rights.has(Right::List));
        assert!(ALL.iter().all(|(right, word)| right.word() == *word));
        assert!("".parse::<Rights>().is_err() && "write,all".parse::<Rights>().is_err());
    }
}
