//! Sessions: claims, heartbeats, checkpoints, epochs, leases, adoption, manifests
