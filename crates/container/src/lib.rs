//! Containers: packer, reader, generations, catalog cache
