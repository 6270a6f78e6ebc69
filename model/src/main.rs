//! Runs scenarios by hand:
//! `model [--volumes] [SCENARIO] [--without RULE]... [--limit STATES] [--seed N]`.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "what it finds is for the reader of a terminal"
)]

use std::fmt::Debug;

use model::search::Outcome;
use model::{explore, rules, scenarios, volumes};

/// What the command line asks for.
struct Wanted {
    volumes: bool,
    scenario: Option<String>,
    without: Vec<String>,
    limit: u64,
    seed: u64,
}

fn main() -> Result<(), String> {
    let wanted = arguments()?;
    if wanted.volumes {
        let mut on = volumes::rules::Rules::all();
        for name in &wanted.without {
            on = on.without(named(volumes::rules::Rule::ALL, name)?);
        }
        let all = volumes::scenarios::all();
        let Some(scenario) = chosen(&wanted, &all, |scenario| (scenario.name, scenario.about))? else {
            return Ok(());
        };
        report(
            scenario.name,
            &volumes::explore::explore(scenario, on, wanted.limit, wanted.seed),
        );
    } else {
        let mut on = rules::Rules::all();
        for name in &wanted.without {
            on = on.without(named(rules::Rule::ALL, name)?);
        }
        let all = scenarios::all();
        let Some(scenario) = chosen(&wanted, &all, |scenario| (scenario.name, scenario.about))? else {
            return Ok(());
        };
        report(
            scenario.name,
            &explore::explore(scenario, on, wanted.limit, wanted.seed),
        );
    }
    Ok(())
}

fn arguments() -> Result<Wanted, String> {
    let mut wanted = Wanted {
        volumes: false,
        scenario: None,
        without: Vec::new(),
        limit: u64::MAX,
        seed: 0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--volumes" => wanted.volumes = true,
            "--without" => wanted.without.push(value()?),
            "--limit" => wanted.limit = value()?.parse().map_err(|error| format!("--limit: {error}"))?,
            "--seed" => wanted.seed = value()?.parse().map_err(|error| format!("--seed: {error}"))?,
            name => wanted.scenario = Some(name.to_owned()),
        }
    }
    Ok(wanted)
}

/// The rule of this name.
fn named<R: Copy + Debug>(all: &[R], name: &str) -> Result<R, String> {
    let rule = all.iter().find(|rule| format!("{rule:?}") == name);
    rule.copied().ok_or(format!("no rule is called {name}"))
}

/// The scenario asked for; without a name, prints all.
fn chosen<'a, S>(
    wanted: &Wanted,
    all: &'a [S],
    told: impl Fn(&S) -> (&'static str, &'static str),
) -> Result<Option<&'a S>, String> {
    let Some(name) = &wanted.scenario else {
        for scenario in all {
            let (name, about) = told(scenario);
            println!("{name:20} {about}");
        }
        return Ok(None);
    };
    let found = all.iter().find(|scenario| told(scenario).0 == name);
    found.map(Some).ok_or(format!("no scenario is called {name}"))
}

fn report<A: Debug, V: Debug, W: Debug>(name: &str, outcome: &Outcome<A, V, W>) {
    println!(
        "{name}: {} states, {} steps, depth {}{}",
        outcome.states,
        outcome.steps,
        outcome.depth,
        if outcome.complete {
            ""
        } else {
            ", stopped at the limit"
        }
    );
    if let Some((violation, trace)) = &outcome.violation {
        println!("  {violation:?} after {} steps", trace.len());
        for action in trace {
            println!("    {action:?}");
        }
    }
    if !outcome.unseen.is_empty() {
        println!("  never seen: {:?}", outcome.unseen);
    }
}
