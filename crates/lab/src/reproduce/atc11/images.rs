//! Backups of the four images of table 4 [`generate::Vm`](crate::generate::Vm) (G3).

use ingest::{StreamPiece, StreamSource};

use super::engine::{CHUNK_BYTES, Job, advance};
use crate::generate::vm::{BLOCK, Image, Vm};
use crate::generate::{Compression, Slice};
use crate::reproduce::Progress;

const _: () = assert!(BLOCK == CHUNK_BYTES, "a block is a chunk of the engine's");

/// The paper's images, with one in `divisor` of their blocks.
pub(super) fn images(divisor: u64) -> Vec<Image> {
    Vm::one_in(divisor)
        .images()
        .expect("a part of the paper's is not empty")
}

/// The job that backs up an image under this name.
pub(super) fn job<'a>(image: &'a Image, name: &str, progress: &'a Progress) -> Job<'a> {
    Job {
        name: name.to_owned(),
        source: Box::new(ImageBytes {
            slices: image.slices(),
            seed: image.seed,
            block: Vec::with_capacity(BLOCK as usize),
            progress,
        }),
    }
}

/// Reads an image from its beginning to its end, free blocks included.
struct ImageBytes<'a, S> {
    slices: S,
    seed: u64,
    block: Vec<u8>,
    progress: &'a Progress,
}

impl<S: Iterator<Item = Slice> + Send> StreamSource for ImageBytes<'_, S> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        // A buffer has room for several of the longest chunks, so for at least one block. A slice
        // is taken only if it fits.
        let mut filled = 0;
        for (block, slice) in buffer.chunks_exact_mut(BLOCK as usize).zip(&mut self.slices) {
            self.block.clear();
            slice.write(self.seed, Compression::None, &mut self.block);
            block.copy_from_slice(&self.block);
            filled += block.len();
        }
        advance(self.progress, filled as u64)?;
        Ok(if filled == 0 {
            StreamPiece::End
        } else {
            StreamPiece::Data(filled)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn bytes_are_equal_where_contents_are() {
        let progress = Progress::new(std::sync::Arc::default());
        let images = images(2000);
        let mut blocks = HashSet::new();
        for image in &images {
            let mut job = job(image, "image", &progress);
            let (mut buffer, mut bytes) = (vec![1; 3 * BLOCK as usize + 5], 0);
            while let StreamPiece::Data(len) = job.source.next(&mut buffer).unwrap() {
                let (whole, rest) = buffer[..len].as_chunks::<{ BLOCK as usize }>();
                assert!(rest.is_empty());
                blocks.extend(whole.iter().map(|block| block.to_vec()));
                bytes += len as u64;
            }
            assert_eq!(bytes, image.bytes());
        }
        // Zeros are one more block.
        assert_eq!(blocks.len() as u64, images[3].counts.union + 1);
    }
}
