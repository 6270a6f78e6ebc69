//! The header of objects of the index: their kind, their version, and further fields.
//!
//! ```text
//! magic 8, version u16, 0 u16, length of the meta u32, meta
//! ```

use format::wire::{Reader, Writer};

/// Bytes before the meta.
pub(crate) const HEAD_BYTES: usize = 16;

/// A kind of object.
pub(crate) struct Head {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    /// The name of the kind in error messages.
    pub(crate) what: &'static str,
}

impl Head {
    /// The head and the meta.
    pub(crate) fn write(&self, meta: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + meta.len());
        let mut w = Writer::new(&mut out);
        w.put(&self.magic);
        w.u16(self.version);
        w.u16(0);
        w.u32(u32::try_from(meta.len()).expect("far less than 4 GiB"));
        w.put(meta);
        out
    }

    /// Reads the head and returns the meta, or the reason why it cannot.
    pub(crate) fn read<'a>(&self, r: &mut Reader<'a>) -> Result<&'a [u8], String> {
        let text = |e: format::FormatError| e.to_string();
        if r.array::<8>().map_err(text)? != self.magic {
            return Err(format!("it does not begin as {} does", self.what));
        }
        let (version, known) = (r.u16().map_err(text)?, self.version);
        if version != known {
            return Err(format!("its version is {version}, this program knows {known}"));
        }
        r.reserved::<2>().map_err(text)?;
        let len = r.u32().map_err(text)? as usize;
        r.take(len).map_err(text)
    }
}
