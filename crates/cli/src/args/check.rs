//! Arguments of `check`.

use clap::Args;
use onefold::ReadData;

/// What `--read-data` takes.
const FORMS: &str = "it is a share above 0% and up to 100%, such as 5%, one of several parts, such as 3/30, or another part each day, such as day/30";

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Read and verify every stored byte, or those of a share of the containers (5%), of a part of
    /// several (3/30), or of another part each day (day/30)
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        default_missing_value = "100%",
        require_equals = true,
        value_parser = reading
    )]
    pub(crate) read_data: Option<Reading>,
}

/// What a check reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// The same whenever it runs.
    Now(ReadData),
    /// Another one of so many parts each day.
    Daily(u32),
}

/// Parses `5%`, `3/30` or `day/30`.
fn reading(text: &str) -> Result<Reading, &'static str> {
    read_as(text).ok_or(FORMS)
}

fn read_as(text: &str) -> Option<Reading> {
    let Some((part, of)) = text.split_once('/') else {
        let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        let is_share = percent > 0.0 && percent <= 100.0;
        return is_share.then_some(Reading::Now(ReadData::Share(percent / 100.0)));
    };
    let of: u32 = of.parse().ok().filter(|of| *of > 0)?;
    if part == "day" {
        return Some(Reading::Daily(of));
    }
    let part: u32 = part.parse().ok()?;
    let part = part.checked_sub(1).filter(|part| *part < of)?;
    Some(Reading::Now(ReadData::Part { part, of }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_parts_are_read_and_nothing_else() {
        let share = |share| Ok(Reading::Now(ReadData::Share(share)));
        assert_eq!(reading("100%"), share(1.0));
        assert_eq!(reading("5 %"), share(0.05));
        assert_eq!(reading("day/30"), Ok(Reading::Daily(30)));
        let part = ReadData::Part { part: 2, of: 30 };
        assert_eq!(reading("3/30"), Ok(Reading::Now(part)));
        for text in [
            "banana", "", "5", "0%", "101%", "0/3", "4/3", "1/0", "day/0", "day", "-1/3", "NaN%",
        ] {
            assert_eq!(reading(text), Err(FORMS), "{text}");
        }
    }
}
