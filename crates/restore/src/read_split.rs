//! Cuts a step into pieces. Several threads read the pieces, each in one request.
//!
//! In one request for a whole container, the first byte would wait for the last one, and the disk
//! would idle meanwhile. Only needed regions are read. Regions in between are read too if that is
//! cheaper than another request, but they are not opened. Pure: no I/O.

use std::sync::Arc;

use container::CatalogView;
use types::RegionIndex;

use crate::fetch::{Piece, fits};
use crate::plan::Fill;
use crate::read_sizes::ReadSizes;
/// A region with a needed chunk.
struct Needed {
    region: RegionIndex,
    begin: u64,
    end: u64,
    plain: u64,
    fills: Vec<Fill>,
}

/// The pieces in physical order. Fills that contradict the catalog are in a piece without regions.
pub(crate) fn pieces(view: &Arc<CatalogView>, fills: &[Fill], sizes: ReadSizes) -> Vec<Piece> {
    let mut unfit = Vec::new();
    let mut placed = Vec::with_capacity(fills.len());
    for fill in fills {
        match view.place_of(fill.slot()).filter(|_| fits(view, fill)) {
            Some(place) => placed.push((place.region, place.offset, *fill)),
            None => unfit.push(*fill),
        }
    }
    // If the stream was stored in order, they are sorted already.
    placed.sort_by_key(|(region, offset, _)| (*region, *offset));
    let needed = needed(view, &placed);
    let gaps = needed.windows(2).map(|pair| pair[1].begin - pair[0].end);
    let bridged = gaps.filter(|gap| *gap <= sizes.gap_bytes_max).sum::<u64>();
    let total = needed.iter().map(Needed::cost).sum::<u64>() + bridged;
    let count = total.div_ceil(sizes.piece_bytes_max as u64).max(1);
    // Pieces have equal sizes: a short last one would use its buffer badly.
    let piece_bytes = total.div_ceil(count);
    let mut out: Vec<Piece> = Vec::new();
    let (mut begin, mut end, mut cost) = (0, 0, 0);
    for region in needed {
        let gap = region.begin - end;
        let goes_on = out.last().is_some_and(|_| {
            gap <= sizes.gap_bytes_max
                && region.end - begin <= sizes.piece_bytes_max as u64
                && cost + gap + region.cost() / 2 <= piece_bytes
        });
        end = region.end;
        match out.last_mut() {
            Some(piece) if goes_on => {
                piece.regions.push(region.region);
                cost += gap + region.cost();
                piece.fills.extend(region.fills);
            }
            _ => {
                (begin, cost) = (region.begin, region.cost());
                out.push(Piece {
                    view: Arc::clone(view),
                    regions: vec![region.region],
                    fills: region.fills,
                });
            }
        }
    }
    if !unfit.is_empty() {
        out.push(Piece {
            view: Arc::clone(view),
            regions: Vec::new(),
            fills: unfit,
        });
    }
    out
}

impl Needed {
    /// The memory of a region: the larger of its stored and its decompressed size.
    fn cost(&self) -> u64 {
        self.plain.max(self.end - self.begin)
    }
}

fn needed(view: &CatalogView, placed: &[(RegionIndex, u32, Fill)]) -> Vec<Needed> {
    let of_region = |of: &[(RegionIndex, u32, Fill)]| {
        let region = of.first()?.0;
        let row = view.row(region)?;
        Some(Needed {
            region,
            begin: row.offset,
            end: row.offset + u64::from(row.stored_len),
            plain: view.plain_len(region),
            fills: of.iter().map(|(.., fill)| *fill).collect(),
        })
    };
    placed.chunk_by(|a, b| a.0 == b.0).filter_map(of_region).collect()
}
