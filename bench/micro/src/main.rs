//! Micro-benchmarks, one a stage of the pipeline; figures are in docs/results/micro.md.
//!
//! `cargo run --release -- [--rounds N] [--only STAGE] [--core N] [--text FILE] [--json]`

mod data;
mod harness;
mod stages;

use harness::Options;

fn main() -> Result<(), String> {
    let mut options = Options {
        rounds: 15,
        json: false,
        only: None,
    };
    let (mut core, mut text) = (0, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        let number = |text: String| text.parse::<usize>().map_err(|error| format!("{text}: {error}"));
        match arg.as_str() {
            "--rounds" => options.rounds = number(value()?)?.max(1),
            "--only" => options.only = Some(value()?),
            "--core" => core = number(value()?)?,
            "--text" => text = Some(value()?),
            "--json" => options.json = true,
            other => {
                return Err(format!(
                    "unknown option {other}; see the head of bench/micro/src/main.rs"
                ));
            }
        }
    }
    harness::pin(core).map_err(|error| format!("core {core}: {error}"))?;
    let text = data::text(text.as_deref()).map_err(|error| format!("reading text: {error}"))?;
    for (name, run) in stages::ALL {
        if options
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
        {
            run(&options, &text);
        }
    }
    Ok(())
}
