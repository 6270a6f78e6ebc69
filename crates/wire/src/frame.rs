//! Frames: `u32 length | u8 kind | u32 number | body`. The length counts what follows it. Little
//! endian.

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 9;
/// The longest body, in bytes: the largest catalog of a container and more.
pub const FRAME_BYTES_MAX: usize = 18 << 20;

/// An answer in several frames has at most so many bytes: more than the longest object.
pub const ANSWER_BYTES_MAX: usize = 3 << 29;

/// Bytes of the head that its length counts.
const COUNTED_BYTES: usize = HEAD_BYTES - 4;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The kind of its message: [`crate::request`] or [`crate::reply`].
    pub kind: u8,
    /// The number of the request. 0 for messages that nobody asked for, and that nobody answers.
    pub number: u32,
    /// Bytes of the body.
    pub len: usize,
}

/// A frame that the receiver does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is shorter than its own head.
    #[error("a frame states {0} bytes, fewer than its head has")]
    Short(u32),
    /// It is longer than the receiver allows.
    #[error("a frame has {len} bytes, at most {max} are allowed")]
    Long {
        /// Bytes of its body.
        len: usize,
        /// The most that are allowed.
        max: usize,
    },
}

impl Head {
    /// Reads a head. The body may have at most `max` bytes: nothing is allocated before this check.
    ///
    /// # Errors
    /// [`FrameError`]
    pub fn decode(bytes: [u8; HEAD_BYTES], max: usize) -> Result<Self, FrameError> {
        let [a, b, c, d, kind, n0, n1, n2, n3] = bytes;
        let stated = u32::from_le_bytes([a, b, c, d]);
        let len = usize::try_from(stated).unwrap_or(usize::MAX);
        let len = len.checked_sub(COUNTED_BYTES).ok_or(FrameError::Short(stated))?;
        let max = max.min(FRAME_BYTES_MAX);
        if len > max {
            return Err(FrameError::Long { len, max });
        }
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        Ok(Self { kind, number, len })
    }
}

/// Writes a whole frame into `out`, in place of what it has. `write_body` appends the body.
///
/// # Errors
/// [`FrameError::Long`]
pub fn frame_into(
    out: &mut Vec<u8>,
    kind: u8,
    number: u32,
    write_body: impl FnOnce(&mut Vec<u8>),
) -> Result<(), FrameError> {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    write_body(out);
    let (len, max) = (out.len() - HEAD_BYTES, FRAME_BYTES_MAX);
    let stated = u32::try_from(len + COUNTED_BYTES).ok().filter(|_| len <= max);
    let stated = stated.ok_or(FrameError::Long { len, max })?;
    out[..4].copy_from_slice(&stated.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, number: u32, body: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut out = Vec::new();
        frame_into(&mut out, kind, number, |out| out.extend_from_slice(body))?;
        Ok(out)
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let bytes = frame(7, 0x0403_0201, b"body").unwrap();
        assert_eq!(bytes, b"\x09\0\0\0\x07\x01\x02\x03\x04body", "the golden vector");
        let head = Head::decode(bytes[..HEAD_BYTES].try_into().unwrap(), FRAME_BYTES_MAX).unwrap();
        assert_eq!((head.kind, head.number, head.len), (7, 0x0403_0201, 4));
    }

    #[test]
    fn lengths_are_checked_before_a_body_is_read() {
        let head = |stated: u32| {
            let mut bytes = [0; HEAD_BYTES];
            bytes[..4].copy_from_slice(&stated.to_le_bytes());
            bytes
        };
        assert_eq!(Head::decode(head(4), 100), Err(FrameError::Short(4)));
        assert_eq!(Head::decode(head(5), 100).unwrap().len, 0);
        assert_eq!(
            Head::decode(head(106), 100),
            Err(FrameError::Long { len: 101, max: 100 })
        );
        let over = u32::MAX;
        assert!(matches!(
            Head::decode(head(over), usize::MAX),
            Err(FrameError::Long { .. })
        ));
        assert!(frame(1, 1, &vec![0; FRAME_BYTES_MAX + 1]).is_err());
    }
}
