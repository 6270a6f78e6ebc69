//! The common form of the payloads of sealed objects and nodes: a version byte, the fields, and
//! nothing after them. Some rules hold for the value as a whole.

use crate::error::{FormatError, Result};
use crate::wire::{Reader, Writer};

/// The fields and rules of one structure. `payload!` makes the public methods from it.
pub(crate) trait Payload: Sized {
    const WHAT: &'static str;
    const VERSION: u8;

    fn write(&self, w: &mut Writer<'_>);
    fn read(r: &mut Reader<'_>) -> Result<Self>;

    /// Returns the first rule that the value breaks.
    fn rules(&self) -> Result<(), &'static str>;
}

pub(crate) fn check<T: Payload>(value: &T) -> Result<()> {
    value
        .rules()
        .map_err(|why| FormatError::Invalid { what: T::WHAT, why })
}

pub(crate) fn encode<T: Payload>(value: &T, out: &mut Vec<u8>) {
    if let Err(error) = try_encode(value, out) {
        panic!("about to write what could not be read back: {error}");
    }
}

/// Appends the encoding, or nothing if the value breaks a rule.
pub(crate) fn try_encode<T: Payload>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    check(value)?;
    let mut w = Writer::new(out);
    w.u8(T::VERSION);
    value.write(&mut w);
    Ok(())
}

pub(crate) fn decode<T: Payload>(bytes: &[u8]) -> Result<T> {
    let mut r = Reader::new(T::WHAT, bytes);
    version(&mut r, T::WHAT, T::VERSION)?;
    let value = T::read(&mut r)?;
    r.finish()?;
    check(&value)?;
    Ok(value)
}

/// Reads a version byte. So far every structure has had only one version.
pub(crate) fn version(r: &mut Reader<'_>, what: &'static str, known: u8) -> Result<()> {
    let zero = r.fault("version 0 was never written");
    match r.u8()? {
        0 => Err(zero),
        v if v > known => Err(FormatError::NewerVersion {
            what,
            found: v.into(),
            known: known.into(),
        }),
        _ => Ok(()),
    }
}

macro_rules! payload {
    ($type:ty) => {
        impl $type {
            /// Appends the only encoding of this value, version byte first.
            ///
            /// # Panics
            /// If [`Self::check`] fails: the encoder never writes what could not be read back.
            pub fn encode(&self, out: &mut Vec<u8>) {
                crate::payload::encode(self, out);
            }

            /// The encoding as a new vector.
            ///
            /// # Panics
            /// As [`Self::encode`].
            #[must_use]
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.encode(&mut out);
                out
            }

            /// The inverse of [`Self::encode`]. It refuses every encoding that [`Self::encode`]
            /// would not write (INV-8).
            ///
            /// # Errors
            /// `Malformed`, `Invalid`, or `NewerVersion`.
            pub fn decode(bytes: &[u8]) -> crate::error::Result<Self> {
                crate::payload::decode(bytes)
            }

            /// Whether the value follows the rules of its encoding (docs/format.md). If a value
            /// comes from outside the program, call this before [`Self::encode`].
            ///
            /// # Errors
            /// `Invalid` names the broken rule.
            pub fn check(&self) -> crate::error::Result<()> {
                crate::payload::check(self)
            }
        }
    };
}
pub(crate) use payload;

/// Checks a rule of a value.
pub(crate) fn rule(holds: bool, why: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(why) }
}

/// Whether every element is greater than the previous one.
pub(crate) fn ascends<T: PartialOrd>(elements: &[T]) -> bool {
    elements.windows(2).all(|pair| pair[0] < pair[1])
}
