//! The design of volumes holds within the small bounds, each of its rules is needed, and the page
//! says so with the same figures.

use std::collections::{BTreeMap, BTreeSet};

use model::volumes::cases::CASES;
use model::volumes::explore::{Outcome, explore, step_kinds};
use model::volumes::properties::Violation;
use model::volumes::rules::{Rule, Rules};
use model::volumes::scenario::Scenario;
use model::volumes::scenarios;

const ACTIONS: &str = include_str!("../src/volumes/action.rs");
const DOCUMENT: &str = include_str!("../../docs/volumes-model.md");

/// More states than any small scenario has, with a rule or without.
const STATES_MAX: u64 = 1_000_000;

/// Properties in `Violation`.
const VIOLATIONS: usize = 12;

fn run(scenario: &Scenario, rules: Rules) -> Outcome {
    let outcome = explore(scenario, rules, STATES_MAX, 0);
    assert!(
        outcome.complete,
        "{}: more than {STATES_MAX} states",
        scenario.name
    );
    outcome
}

/// Fails with the rows that the page lacks, ready to be put there.
fn expect_rows(rows: &[String]) {
    let missing: Vec<&str> = rows
        .iter()
        .map(String::as_str)
        .filter(|row| !DOCUMENT.contains(*row))
        .collect();
    assert!(missing.is_empty(), "the page lacks:\n{}", missing.join("\n"));
}

#[test]
fn the_design_holds_in_every_small_scenario() {
    let mut rows = Vec::new();
    for scenario in scenarios::small() {
        let outcome = run(&scenario, Rules::all());
        assert!(
            outcome.violation.is_none(),
            "{}: {:#?}",
            scenario.name,
            outcome.violation
        );
        assert!(
            outcome.unseen.is_empty(),
            "{} never shows {:?}",
            scenario.name,
            outcome.unseen
        );
        rows.push(format!(
            "| {} | {} | {} | {} |",
            scenario.name, scenario.about, outcome.states, outcome.depth
        ));
    }
    expect_rows(&rows);
}

#[test]
fn each_rule_switched_off_gives_its_violation() {
    let scenarios: BTreeMap<&str, Scenario> = scenarios::small()
        .into_iter()
        .map(|scenario| (scenario.name, scenario))
        .collect();
    let mut rows = Vec::new();
    for case in CASES {
        let outcome = run(&scenarios[case.scenario], Rules::all().without(case.rule));
        let Some((violation, trace)) = &outcome.violation else {
            panic!("{case:?} finds nothing in {} states", outcome.states);
        };
        assert_eq!(*violation, case.finds, "{case:?}: {trace:#?}");
        rows.push(format!(
            "| `{:?}` | {} | `{violation:?}` | {} | {} |",
            case.rule,
            case.scenario,
            trace.len(),
            outcome.states
        ));
    }
    expect_rows(&rows);
}

#[test]
fn no_rule_is_left_without_a_violation() {
    let shown: BTreeSet<Rule> = CASES.iter().map(|case| case.rule).collect();
    let all: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    assert_eq!(shown, all);
    let found: BTreeSet<Violation> = CASES.iter().map(|case| case.finds).collect();
    assert_eq!(
        found.len(),
        VIOLATIONS,
        "a property that nothing can violate proves nothing"
    );
    for violation in found {
        let named = format!("| `{violation:?}` |");
        assert!(DOCUMENT.contains(&named), "the page has no row {named}");
    }
}

/// The names of the steps, from the source: no list to forget one in.
fn all_steps() -> BTreeSet<&'static str> {
    let body = ACTIONS
        .split_once("pub enum Action {")
        .expect("the enum of steps")
        .1;
    body.lines()
        .filter_map(|line| line.trim().split_once([' ', ',']).map(|(name, _)| name))
        .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect()
}

/// Steps that a rule forbids, or that change nothing.
const NOT_IN_THE_DESIGN: &[&str] = &["Checkpoint", "LateBatch"];

#[test]
fn every_kind_of_step_is_taken_somewhere() {
    let mut taken = BTreeSet::new();
    for scenario in scenarios::small() {
        taken.extend(step_kinds(&scenario, Rules::all()));
    }
    let never: Vec<&str> = all_steps()
        .into_iter()
        .filter(|name| !taken.contains(*name))
        .collect();
    assert_eq!(never, NOT_IN_THE_DESIGN);
}

#[test]
fn every_step_has_a_row() {
    let section = DOCUMENT
        .split_once("## From the model to the code")
        .expect("the section")
        .1;
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let told: Vec<&str> = rows
        .flat_map(|row| {
            row.split('|')
                .nth(1)
                .unwrap_or_default()
                .split('`')
                .skip(1)
                .step_by(2)
        })
        .collect();
    let steps = all_steps();
    assert_eq!(told.len(), steps.len(), "each once: {told:?}");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), steps);
}
