//! Every outcome of a power cut.

use super::cut::Judge;
use super::machine::FaultMachine;
use super::world::World;

/// The machines after every possible power cut, each once; see [`FaultMachine::outcomes`].
#[derive(Debug)]
pub struct Outcomes {
    before: World,
    /// The number of outcomes of each choice.
    choices: Vec<usize>,
    count: u64,
    done: u64,
}

impl FaultMachine {
    /// The machine after each possible power cut at this moment. `None` if there are more than
    /// `count_max`. Blocks are whole or not written; only [`PowerCut`] tears them.
    #[must_use]
    pub fn outcomes(&self, count_max: u64) -> Option<Outcomes> {
        let before = self.world().clone();
        let choices = before.choices();
        let count = choices
            .iter()
            .try_fold(1_u64, |count, choice| count.checked_mul(*choice as u64))?;
        (count <= count_max).then_some(Outcomes {
            before,
            choices,
            count,
            done: 0,
        })
    }
}

impl Iterator for Outcomes {
    type Item = FaultMachine;

    fn next(&mut self) -> Option<FaultMachine> {
        if self.done == self.count {
            return None;
        }
        // The outcome's number, written with a digit for each choice.
        let mut number = self.done;
        let mut picks = Vec::with_capacity(self.choices.len());
        for choice in &self.choices {
            let choice = *choice as u64;
            picks.push(usize::try_from(number % choice).expect("it is less than a usize"));
            number /= choice;
        }
        picks.reverse();
        self.done += 1;
        Some(FaultMachine::on(self.before.after(&mut Judge::Chosen(picks))))
    }
}
