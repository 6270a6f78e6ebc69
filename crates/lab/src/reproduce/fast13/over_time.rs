//! Figures 1 and 3: fragmentation over time [Lillibridge 2, 4.3; L1].

use simulate::{Assembly, Memory, Outcome};

use super::data::{Data, said_mib};
use crate::reproduce::statistics::{AVERAGED, is_near, line, moving};
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// The paper shows four sizes of an LRU cache; its text names 128 MB and 1 GB.
const SIZES_MIB: [u64; 4] = [32, 128, 1024, 8192];

/// Backups of a week of '2year'.
const WEEK: u64 = 5;

/// The memories with which a backup is restored. All backups are restored with each size; of large
/// data only one week in four, so that every [`AVERAGED`] backups include one.
pub(super) fn memories(data: &Data, backup: u64) -> Vec<Memory> {
    let weeks = AVERAGED as u64 / WEEK;
    let is_last = backup + AVERAGED as u64 >= data.backups;
    if data.is_large && !is_last && !(backup / WEEK).is_multiple_of(weeks) {
        return Vec::new();
    }
    SIZES_MIB.map(|mib| data.memory(mib, Assembly::Lru)).to_vec()
}

/// Containers read for each MiB, for each backup.
pub(super) fn experiment(data: &Data, outcomes: &[Outcome]) -> Experiment {
    let (name, figure) = data.says.over_time;
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for mib in SIZES_MIB {
        let size = said_mib(mib);
        let points = moving(outcomes, data.memory(mib, Assembly::Lru));
        if let Some(line) = line(&points) {
            rows.push(
                Row::new(
                    format!("R² of a line through fragmentation over time, {size} LRU"),
                    format!("over {}", data.says.r_squared),
                    format!("{:.3}", line.r_squared),
                )
                .value(line.r_squared)
                .met(
                    line.r_squared > data.says.r_squared,
                    format!("fragmentation does not grow along a line: {}", data.says.untold),
                ),
            );
        }
        if let (Some((_, first)), Some((_, last))) = (points.first(), points.last()) {
            let growth = last / first;
            let what = format!(
                "growth of fragmentation, the last {AVERAGED} backups to the first {AVERAGED}, {size} LRU"
            );
            rows.push(beside(data, data.says.growth, mib, what, growth, "X"));
            let what = format!("containers read for each MB at the end, {size} LRU");
            rows.push(beside(data, data.says.at_end, mib, what, *last, ""));
        }
        series.push(Series::new(format!("LRU {size}"), points));
    }
    Experiment {
        name: name.to_owned(),
        title: format!("{figure}: fragmentation over time"),
        seeds: vec!["L1"],
        setup: format!("{}{}", data.setup(), restored_words(data)),
        rows,
        plots: vec![Plot {
            name: name.to_owned(),
            title: format!("Fragmentation over time, {}", data.name),
            subtitle: data.setup(),
            x: Axis::linear("backup"),
            y: Axis::linear("containers read for each MiB, moving average of 20 backups"),
            series,
        }],
    }
}

/// What an average of backups has in it, if [`memories`] leaves some out.
fn restored_words(data: &Data) -> String {
    if !data.is_large {
        return String::new();
    }
    format!(
        " Of every {AVERAGED} backups, the {WEEK} of one week are restored, and the last {AVERAGED} of each quarter all. So a \
         moving average of {AVERAGED} backups is of the restored ones among them, {WEEK} as a rule."
    )
}

/// A row with the paper's figure for this memory, if it has one.
fn beside(data: &Data, says: &[(u64, f64)], mib: u64, what: String, ours: f64, unit: &str) -> Row {
    let ours_said = format!("{ours:.1}{unit}");
    let Some((_, paper)) = says.iter().find(|(size, _)| *size == mib) else {
        return Row::new(what, "no figure", ours_said).value(ours);
    };
    Row::new(what, format!("{paper}{unit}"), ours_said)
        .value(ours)
        .met(is_near(ours, *paper), data.far())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_large_data_say_how_many_backups_they_have() {
        let mut data = Data::two_year(12_000_000, 20, 256 << 10);
        assert_eq!(experiment(&data, &[]).setup, data.setup());
        data.is_large = true;
        let restored = |from: u64| {
            let backups = from..from + AVERAGED as u64;
            backups
                .filter(|backup| !memories(&data, *backup).is_empty())
                .count()
        };
        assert_eq!(
            (restored(0), restored(20), restored(data.backups - 20)),
            (5, 5, 20)
        );
        let setup = experiment(&data, &[]).setup;
        assert!(
            setup.contains("of the restored ones among them, 5 as a rule"),
            "{setup}"
        );
    }
}
