//! The design holds within the small bounds, and each of its clauses is needed.

use std::collections::{BTreeSet, HashSet};

use model::cases::{CASES, IMPLIED};
use model::explore::{Outcome, explore, step_kinds};
use model::properties::Violation;
use model::rules::{Rule, Rules};
use model::scenario::Scenario;
use model::scenarios;

/// More states than any small scenario has, with a rule or without.
const STATES_MAX: u64 = 4_000_000;

/// Properties in `Violation`.
const VIOLATIONS: usize = 10;

fn scenario(name: &str) -> Scenario {
    let found = scenarios::small()
        .into_iter()
        .find(|scenario| scenario.name == name);
    found.unwrap_or_else(|| panic!("no small scenario is called {name}"))
}

fn run(scenario: &Scenario, rules: Rules) -> Outcome {
    let outcome = explore(scenario, rules, STATES_MAX, 0);
    assert!(
        outcome.complete,
        "{}: more than {STATES_MAX} states",
        scenario.name
    );
    outcome
}

#[test]
fn the_design_holds_in_every_small_scenario() {
    for scenario in scenarios::small() {
        let outcome = run(&scenario, Rules::all());
        println!(
            "{}: {} states, depth {}",
            scenario.name, outcome.states, outcome.depth
        );
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
    }
}

#[test]
fn each_rule_switched_off_gives_its_violation() {
    for case in CASES {
        let scenario = scenario(case.scenario);
        let with = case
            .without
            .iter()
            .fold(Rules::all(), |rules, rule| rules.without(*rule));
        // All rules on is explored above; here only what a case leaves out on both sides.
        if !case.without.is_empty() && case.finds.is_some() {
            let outcome = run(&scenario, with);
            assert!(outcome.violation.is_none(), "{case:?}: {:#?}", outcome.violation);
        }
        let outcome = run(&scenario, with.without(case.rule));
        let found = outcome
            .violation
            .as_ref()
            .map(|(violation, trace)| (*violation, trace.len()));
        println!("{case:?}: {found:?} in {} states", outcome.states);
        assert_eq!(
            found.map(|(violation, _)| violation),
            case.finds,
            "{case:?}: {:#?}",
            outcome.violation
        );
    }
}

#[test]
fn no_rule_is_left_without_a_violation() {
    let shown: BTreeSet<Rule> = CASES
        .iter()
        .filter(|case| case.finds.is_some())
        .map(|case| case.rule)
        .collect();
    let all: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    let not_shown: Vec<Rule> = all.difference(&shown).copied().collect();
    assert_eq!(not_shown, IMPLIED);
    let found: HashSet<Violation> = CASES.iter().filter_map(|case| case.finds).collect();
    assert_eq!(
        found.len(),
        VIOLATIONS,
        "a property that nothing can violate proves nothing"
    );
}

/// Steps that a rule forbids, or that only an index trusted by look-ups knows.
const NOT_IN_THE_DESIGN: &[&str] = &["DropClaim", "DropEnding", "DropTombstone", "RebuildIndex"];

#[test]
fn every_kind_of_step_is_taken_somewhere() {
    let mut taken = BTreeSet::new();
    for scenario in scenarios::small() {
        taken.extend(step_kinds(&scenario, Rules::all()));
    }
    // The names stand in the source: no macro, and no list to forget one in.
    let source = include_str!("../src/action.rs");
    let body = source
        .split_once("pub enum Action {")
        .expect("the enum of steps")
        .1;
    let named = body
        .lines()
        .filter_map(|line| line.trim().split_once([' ', ',']).map(|(name, _)| name));
    let all: BTreeSet<String> = named
        .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect();
    let never: Vec<&String> = all.difference(&taken).collect();
    assert_eq!(never, NOT_IN_THE_DESIGN);
}
