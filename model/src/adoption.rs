//! Adoption: a new session wins an old one's ending, and goes on from the checkpoint that it names.

use crate::action::Action;
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::session::{Successors, end};
use crate::state::{Ending, SESSIONS, State};

/// Steps of session `i` towards an adoption: it reads checkpoint k, then creates the ending that
/// names it.
///
/// Whatever the old session had adopted itself comes along, whether or not its checkpoint says so.
pub(crate) fn adopt(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    let number = |n: usize| u8::try_from(n).expect("a session's number fits a byte");
    if let Some((old, k)) = me.adopting {
        let old = usize::from(old);
        let mut next = *state;
        next.sessions[i].adopting = None;
        if state.has_ended(old) {
            out.push((Action::LoseAdoption { session: i, old }, next));
            return;
        }
        let taken = if rules.has(Rule::AdoptReadsOnlyK) {
            k
        } else {
            state.checkpoints[old].map_or(k, |newest| newest.content)
        };
        end(
            scenario,
            &mut next,
            old,
            Ending::Adopted {
                by: number(i),
                checkpoint: k,
            },
        );
        let mut chained = taken;
        for earlier in 0..SESSIONS {
            if let Ending::Adopted { by, checkpoint } = state.endings[earlier]
                && state.last_adopter(usize::from(by)) == old
            {
                chained.refs |= checkpoint.refs;
                chained.named |= checkpoint.named;
            }
        }
        next.sessions[i].held |= chained.refs;
        next.sessions[i].adopted_named |= chained.named;
        out.push((Action::WinAdoption { session: i, old }, next));
        return;
    }
    if state.has_ended(i) {
        return;
    }
    for old in scenario.adopts[i].each() {
        let lower = old < i || !rules.has(Rule::AdoptLowerOnly);
        if let Some(k) = state.checkpoints[old]
            && lower
            && !state.has_ended(old)
        {
            let mut next = *state;
            next.sessions[i].adopting = Some((number(old), k.content));
            out.push((Action::ReadForAdoption { session: i, old }, next));
        }
    }
}
