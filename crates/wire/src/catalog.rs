//! Catalogs and regions, as a server sends them to a reader.

use container::CatalogView;
use format::container::{Catalog, decode_rows, encode_rows};
use format::wire::{Reader, Writer};
use types::{ContainerId, Generation, RegionIndex};

use crate::codec::{Result, Wire};
use crate::frame::FRAME_BYTES_MAX;

/// A catalog in the form to send.
#[derive(Debug)]
pub struct SentCatalog {
    id: ContainerId,
    generation: Generation,
    catalog: Catalog,
    rows: Vec<u8>,
}

impl SentCatalog {
    /// The catalog of a view.
    #[must_use]
    pub fn of(view: &CatalogView) -> Self {
        Self {
            id: view.id(),
            generation: view.generation(),
            catalog: Catalog {
                entries: view.entries().to_vec(),
            },
            rows: encode_rows(view.rows()),
        }
    }

    /// A view of it, for a reader.
    ///
    /// # Errors
    /// The rule of the format that it breaks.
    pub fn view(self) -> std::result::Result<CatalogView, format::FormatError> {
        CatalogView::from_rows(
            self.id,
            self.generation,
            self.catalog.entries,
            decode_rows(&self.rows)?,
        )
    }
}

impl Wire for SentCatalog {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.id);
        w.generation(self.generation);
        w.bytes(&self.catalog.to_bytes());
        w.bytes(&self.rows);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: r.container()?,
            generation: r.generation()?,
            catalog: Catalog::decode(r.bytes(FRAME_BYTES_MAX)?)?,
            rows: Wire::read(r)?,
        })
    }
}

/// Regions that a client asks for.
#[derive(Debug)]
pub struct AskedRegions {
    /// The container, ...
    pub container: ContainerId,
    /// ... in the generation whose catalog the client has.
    pub generation: Generation,
    /// In ascending order.
    pub regions: Vec<RegionIndex>,
}

impl Wire for AskedRegions {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.container);
        w.generation(self.generation);
        w.list(&self.regions, |w, region| w.u32(region.get()));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            container: r.container()?,
            generation: r.generation()?,
            regions: r.list(4, |r| {
                let index = RegionIndex::new(r.u32()?);
                index.map_err(|_| r.fault("no region"))
            })?,
        })
    }
}
