//! Messages outside of a backup: greeting, joining, logging in, listing, reading.

use format::wire::{Reader, Writer};
use types::StoreId;

use crate::codec::{Result, TEXT_BYTES_MAX, Wire};
use crate::session::SentManifest;
use crate::{MAGIC, VERSION, VERSION_MIN};

/// A client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version that the client speaks.
    pub versions: (u16, u16),
    /// The client's program, for logs.
    pub program: String,
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak from now on.
    pub version: u16,
    /// The server's program, for logs.
    pub program: String,
}

impl Hello {
    /// The greeting of a client of this version.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            versions: (VERSION_MIN, VERSION),
            program: program.into(),
        }
    }

    /// The newest version that this crate and the client speak.
    #[must_use]
    pub fn common_version(&self) -> Option<u16> {
        let (oldest, newest) = self.versions;
        let version = newest.min(VERSION);
        (version >= oldest.max(VERSION_MIN)).then_some(version)
    }
}

impl Wire for Hello {
    fn write(&self, w: &mut Writer<'_>) {
        w.put(&MAGIC);
        w.u16(self.versions.0);
        w.u16(self.versions.1);
        w.text(&self.program);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        if r.array()? != MAGIC {
            return Err(r.fault("this is no client of Onefold"));
        }
        Ok(Self {
            versions: (r.u16()?, r.u16()?),
            program: r.text(TEXT_BYTES_MAX)?,
        })
    }
}

/// Two or three texts.
macro_rules! texts {
    ($name:ident { $($field:ident),* }) => {
        impl Wire for $name {
            fn write(&self, w: &mut Writer<'_>) {
                $(w.text(&self.$field);)*
            }

            fn read(r: &mut Reader<'_>) -> Result<Self> {
                Ok(Self { $($field: r.text(TEXT_BYTES_MAX)?),* })
            }
        }
    };
}

impl Wire for Welcome {
    fn write(&self, w: &mut Writer<'_>) {
        w.u16(self.version);
        w.text(&self.program);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            version: r.u16()?,
            program: r.text(TEXT_BYTES_MAX)?,
        })
    }
}

/// Trades an invitation for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// The invitation's one-time code.
    pub code: String,
    /// The name of the machine that joins, for the list of tokens.
    pub label: String,
}

texts!(Joining { code, label });

/// The answer to [`Joining`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The new token. The server keeps only its hash.
    pub token: String,
    /// The namespace that it is for.
    pub namespace: String,
    /// Its rights, separated by commas.
    pub rights: String,
}

texts!(Joined {
    token,
    namespace,
    rights
});

/// Shows a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The token.
    pub token: String,
    /// The namespace to use it for.
    pub namespace: String,
}

texts!(Login { token, namespace });

/// The manifests of a namespace's backups, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests {
    /// The store that has them.
    pub store: Option<StoreId>,
    /// The backups.
    pub backups: Vec<SentManifest>,
    /// Manifests that cannot be read: name, and why.
    pub damaged: Vec<(String, String)>,
}

impl Wire for Manifests {
    fn write(&self, w: &mut Writer<'_>) {
        w.option(self.store, Writer::store);
        self.backups.write(w);
        self.damaged.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            store: r.option(Reader::store)?,
            backups: Wire::read(r)?,
            damaged: Wire::read(r)?,
        })
    }
}

/// The backups that a reader has pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBegun {
    /// Each in the revision that is read.
    pub backups: Vec<SentManifest>,
    /// The keys by which the client verifies what it reads. Only for those who may read.
    pub keys: [u8; crypto::DERIVED_KEYS_BYTES],
}

impl Wire for ReadBegun {
    fn write(&self, w: &mut Writer<'_>) {
        self.backups.write(w);
        w.put(&self.keys);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            backups: Wire::read(r)?,
            keys: r.array()?,
        })
    }
}

/// How far an operation is that the server runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the unit that it counts.
    pub unit: u8,
    /// How many are done.
    pub done: u64,
    /// How many there are in all; 0 if unknown.
    pub total: u64,
}

impl Wire for Progress {
    fn write(&self, w: &mut Writer<'_>) {
        w.u8(self.unit);
        w.u64(self.done);
        w.u64(self.total);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            unit: r.u8()?,
            done: r.u64()?,
            total: r.u64()?,
        })
    }
}

impl Wire for () {
    fn write(&self, _: &mut Writer<'_>) {}

    fn read(_: &mut Reader<'_>) -> Result<Self> {
        Ok(())
    }
}
