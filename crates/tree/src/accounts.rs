//! Names of users and groups, from the system's plain tables.
//!
//! The tables are read once. Accounts that only a directory service knows have no name here. For
//! these the stored numbers count. So a static binary needs no name service of the C library.

use std::collections::HashMap;

/// A table of users and one of groups.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    users: Table,
    groups: Table,
}

#[derive(Debug, Clone, Default)]
struct Table {
    names: HashMap<u32, Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Accounts {
    /// The system's own tables. A table that cannot be read is empty.
    #[must_use]
    pub fn of_system() -> Self {
        let read = |path| std::fs::read(path).unwrap_or_default();
        Self::parse(&read("/etc/passwd"), &read("/etc/group"))
    }

    /// Parses tables in the form of `/etc/passwd` and `/etc/group`. Skips lines of another form. Of
    /// several names for one number the first counts, as in the system.
    #[must_use]
    pub fn parse(passwd: &[u8], group: &[u8]) -> Self {
        Self {
            users: Table::parse(passwd),
            groups: Table::parse(group),
        }
    }

    /// The user's name; empty if unknown.
    #[must_use]
    pub fn user(&self, uid: u32) -> &[u8] {
        self.users.names.get(&uid).map_or(b"", Vec::as_slice)
    }

    /// The group's name; empty if unknown.
    #[must_use]
    pub fn group(&self, gid: u32) -> &[u8] {
        self.groups.names.get(&gid).map_or(b"", Vec::as_slice)
    }

    /// The number of a user's name.
    #[must_use]
    pub fn user_number(&self, name: &[u8]) -> Option<u32> {
        self.users.numbers.get(name).copied()
    }

    /// The number of a group's name.
    #[must_use]
    pub fn group_number(&self, name: &[u8]) -> Option<u32> {
        self.groups.numbers.get(name).copied()
    }
}

impl Table {
    fn parse(text: &[u8]) -> Self {
        let mut table = Self::default();
        for line in text.split(|b| *b == b'\n') {
            let mut fields = line.split(|b| *b == b':');
            let (Some(name), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let Some(number) = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok()) else {
                continue;
            };
            if name.is_empty() || name.starts_with(b"#") {
                continue;
            }
            table.names.entry(number).or_insert_with(|| name.to_vec());
            table.numbers.entry(name.to_vec()).or_insert(number);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_both_ways() {
        let accounts = Accounts::parse(
            b"root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nbroken\n#x:y:7:\nn\xff:x:12:\nx:y:-4:",
            b"wheel:x:10:a,b\n",
        );
        assert_eq!(accounts.user(0), b"root");
        assert_eq!(accounts.user(12), b"n\xff");
        assert_eq!(accounts.user(7), b"");
        assert_eq!(accounts.user_number(b"toor"), Some(0));
        assert_eq!(accounts.group(10), b"wheel");
        assert_eq!(accounts.group_number(b"wheel"), Some(10));
    }
}
