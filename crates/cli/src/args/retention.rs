//! Arguments of the commands that forget, tag and hold backups.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onefold::{GroupBy, Limit, Period, Policy, Rule, TimeSpan, Times, UnixNanos};

use super::typed::{TagList, name, path, tag_list};
use super::{Filter, PruneLimits};

#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// Forget these backups: ids, or `latest`
    #[arg(value_name = "ID", conflicts_with_all = ["Keep", "group_by", "unsafe_allow_remove_all", "times"])]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) keep: Keep,
    /// Only backups of this host (may be repeated: of any of these hosts)
    #[arg(long, value_name = "HOST", value_parser = name)]
    host: Vec<String>,
    /// Only backups of this path (may be repeated: of all these paths)
    #[arg(long, value_name = "PATH", value_parser = path())]
    path: Vec<PathBuf>,
    /// Only backups with this tag, or with all of these tags, separated by commas; empty: backups
    /// without tags (may be repeated: any of these)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list)]
    tag: Vec<TagList>,
    /// Apply the rules to each group of backups with the same `host`, `paths` and `tags`, or any of
    /// these, separated by commas; empty: to all backups together
    #[arg(short, long, value_name = "GROUP", default_value = "host,paths", value_parser = group_by)]
    pub(crate) group_by: GroupBy,
    /// Which times the rules use [default: the storage's commit times, unless they contradict the
    /// times that the backups state]
    #[arg(long, value_enum, value_name = "WHOSE")]
    times: Option<TimesOf>,
    /// Allow that a group loses all its backups
    #[arg(long)]
    unsafe_allow_remove_all: bool,
    /// Forget the named backups even if their manifests cannot be read now. Such a backup may be
    /// intact, or held; use this if the manifests are lost for good. Also end a session that stops
    /// `prune` because its claim is damaged
    #[arg(long, requires = "ids", conflicts_with = "Keep")]
    pub(crate) force_unreadable: bool,
    /// Show which backups would be forgotten, why, and how much space that would free; forget none
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Run `prune` afterwards
    #[arg(long)]
    pub(crate) prune: bool,
    #[command(flatten)]
    pub(crate) limits: PruneLimits,
}

impl Forget {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            host: self.host.clone(),
            path: self.path.clone(),
            tag: self.tag.clone(),
        }
    }

    /// Whether limits of a prune are given, although no prune follows.
    pub(crate) fn has_idle_limits(&self) -> bool {
        self.limits.are_given() && !self.prune && !self.dry_run
    }

    pub(crate) fn times(&self) -> Times {
        match self.times {
            None => Times::Agreeing,
            Some(TimesOf::Commit) => Times::Commit,
            Some(TimesOf::Backup) => Times::Backup,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            rules: self.keep.rules(),
            may_remove_all: self.unsafe_allow_remove_all,
        }
    }
}

/// The clock that the rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimesOf {
    /// The time of the commit, by the clock of the storage
    Commit,
    /// The time that the backup states, by the clock of its source
    Backup,
}

/// The rules.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Rules (N: a number, or `unlimited`; DURATION: as 2y5m7d3h; hours, days, weeks begin in UTC)"
)]
#[group(id = "Keep", multiple = true)]
pub(crate) struct Keep {
    /// Keep the last N backups
    #[arg(short = 'l', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_last: Option<Count>,
    /// Keep the newest backup of each of the last N hours that have one
    #[arg(short = 'H', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_hourly: Option<Count>,
    /// Keep the newest backup of each of the last N days that have one
    #[arg(short = 'd', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_daily: Option<Count>,
    /// Keep the newest backup of each of the last N weeks that have one
    #[arg(short = 'w', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_weekly: Option<Count>,
    /// Keep the newest backup of each of the last N months that have one
    #[arg(short = 'm', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_monthly: Option<Count>,
    /// Keep the newest backup of each of the last N years that have one
    #[arg(short = 'y', long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    keep_yearly: Option<Count>,
    /// Keep backups that are at most DURATION older than the newest one
    #[arg(long, value_name = "DURATION")]
    keep_within: Option<TimeSpan>,
    /// Within DURATION, keep the newest backup of each hour
    #[arg(long, value_name = "DURATION")]
    keep_within_hourly: Option<TimeSpan>,
    /// Within DURATION, keep the newest backup of each day
    #[arg(long, value_name = "DURATION")]
    keep_within_daily: Option<TimeSpan>,
    /// Within DURATION, keep the newest backup of each week
    #[arg(long, value_name = "DURATION")]
    keep_within_weekly: Option<TimeSpan>,
    /// Within DURATION, keep the newest backup of each month
    #[arg(long, value_name = "DURATION")]
    keep_within_monthly: Option<TimeSpan>,
    /// Within DURATION, keep the newest backup of each year
    #[arg(long, value_name = "DURATION")]
    keep_within_yearly: Option<TimeSpan>,
    /// Keep backups with this tag, or with all of these tags, separated by commas; empty: backups
    /// without tags (may be repeated)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list)]
    keep_tag: Vec<TagList>,
}

impl Keep {
    fn rules(&self) -> Vec<Rule> {
        let newest = [
            (Period::Each, self.keep_last),
            (Period::Hour, self.keep_hourly),
            (Period::Day, self.keep_daily),
            (Period::Week, self.keep_weekly),
            (Period::Month, self.keep_monthly),
            (Period::Year, self.keep_yearly),
        ];
        let within = [
            (Period::Each, self.keep_within),
            (Period::Hour, self.keep_within_hourly),
            (Period::Day, self.keep_within_daily),
            (Period::Week, self.keep_within_weekly),
            (Period::Month, self.keep_within_monthly),
            (Period::Year, self.keep_within_yearly),
        ];
        let newest = newest.into_iter().filter_map(|(period, count)| {
            let limit = count?.0?;
            Some(Rule::Newest { period, limit })
        });
        let within = within
            .into_iter()
            .filter_map(|(period, span)| Some(Rule::Within { period, span: span? }));
        let tagged = self.keep_tag.iter().map(|list| Rule::Tagged(list.0.clone()));
        newest.chain(within).chain(tagged).collect()
    }
}

/// How many backups a rule keeps; `None` with 0, which is no rule.
#[derive(Debug, Clone, Copy)]
struct Count(Option<Limit>);

fn count(text: &str) -> Result<Count, String> {
    if matches!(text, "unlimited" | "-1") {
        return Ok(Count(Some(Limit::None)));
    }
    let number: u32 = text
        .parse()
        .map_err(|_| "a number of backups, or `unlimited`".to_owned())?;
    Ok(Count(NonZeroU32::new(number).map(Limit::Count)))
}

fn group_by(text: &str) -> Result<GroupBy, String> {
    let mut by = GroupBy {
        host: false,
        paths: false,
        tags: false,
    };
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "host" => by.host = true,
            "path" | "paths" => by.paths = true,
            "tag" | "tags" => by.tags = true,
            _ => {
                return Err(format!(
                    "`{word}` is nothing to group by; `host`, `paths` and `tags` are"
                ));
            }
        }
    }
    Ok(by)
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct Tag {
    /// The backups: ids, or `latest`
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Add this tag (may be repeated, or separated by commas)
    #[arg(
        long,
        value_name = "TAG[,TAG]",
        value_parser = tag_list,
        group = "change",
        conflicts_with = "set"
    )]
    pub(crate) add: Vec<TagList>,
    /// Remove this tag
    #[arg(
        long,
        value_name = "TAG[,TAG]",
        value_parser = tag_list,
        group = "change",
        conflicts_with = "set"
    )]
    pub(crate) remove: Vec<TagList>,
    /// Replace all tags by these; empty: remove all
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list, group = "change")]
    pub(crate) set: Option<Vec<TagList>>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("end").required(true))]
pub(crate) struct Hold {
    /// The backups: ids, or `latest`
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Until this date, or date and time, such as 2030-01-31 or `2030-01-31 12:00`, local; or RFC
    /// 3339
    #[arg(long, value_name = "DATE", group = "end", value_parser = moment)]
    pub(crate) until: Option<UnixNanos>,
    /// For this long from now, such as 2y6m
    #[arg(long = "for", value_name = "DURATION", group = "end")]
    pub(crate) span: Option<TimeSpan>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Args)]
pub(crate) struct Unhold {
    /// The backups: ids, or `latest`
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

/// Parses a date, or a date with a time.
pub(super) fn moment(text: &str) -> Result<UnixNanos, String> {
    let local = |text: &str| {
        let time: jiff::civil::DateTime = text.parse()?;
        Ok::<_, jiff::Error>(time.to_zoned(jiff::tz::TimeZone::system())?.timestamp())
    };
    let time = text.parse::<jiff::Timestamp>().or_else(|_| local(text));
    let nanos = time
        .ok()
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    let wrong = || "a date as 2030-01-31, or `2030-01-31 12:00`, before the year 2262".to_owned();
    nanos.map(UnixNanos::new).ok_or_else(wrong)
}
