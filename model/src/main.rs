//! Runs scenarios by hand: `model [SCENARIO] [--without RULE]... [--limit STATES] [--seed N]`.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "what it finds is for the reader of a terminal"
)]

use model::explore::explore;
use model::rules::{Rule, Rules};
use model::scenarios;

fn main() -> Result<(), String> {
    let mut rules = Rules::all();
    let (mut limit, mut seed, mut wanted) = (u64::MAX, 0, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--without" => {
                let name = value()?;
                let rule = Rule::ALL.iter().find(|rule| format!("{rule:?}") == name);
                rules = rules.without(*rule.ok_or(format!("no rule is called {name}"))?);
            }
            "--limit" => limit = value()?.parse().map_err(|error| format!("--limit: {error}"))?,
            "--seed" => seed = value()?.parse().map_err(|error| format!("--seed: {error}"))?,
            name => wanted = Some(name.to_owned()),
        }
    }
    let all = scenarios::all();
    if let Some(name) = &wanted
        && !all.iter().any(|scenario| scenario.name == name)
    {
        return Err(format!("no scenario is called {name}"));
    }
    for scenario in all {
        match &wanted {
            Some(name) if name != scenario.name => continue,
            None => println!("{:20} {}", scenario.name, scenario.about),
            Some(_) => report(&scenario, rules, limit, seed),
        }
    }
    Ok(())
}

fn report(scenario: &model::scenario::Scenario, rules: Rules, limit: u64, seed: u64) {
    let outcome = explore(scenario, rules, limit, seed);
    println!(
        "{}: {} states, {} steps, depth {}{}",
        scenario.name,
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
