//! Checks of the repository that cargo does not have: `cargo xtask layering`, `cargo xtask
//! circles`, `cargo xtask tidy`, `cargo xtask chaos`.

mod chaos;
mod circles;
mod dependencies;
mod functions;
mod layering;
mod tidy;
mod width;
mod workspace;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("layering") => layering::check(),
        Some("circles") => circles::check(),
        Some("tidy") => tidy::check(),
        Some("chaos") => chaos::chaos(std::env::args().skip(2)),
        other => bail!("unknown task {other:?}; the tasks are: layering, circles, tidy, chaos"),
    }
}
