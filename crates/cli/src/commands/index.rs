//! `onefold index`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, count, thousands};
use cli_support::progress::{self, Status};
use serde::Serialize;

use crate::args::{Global, Index};

#[derive(Serialize)]
struct Done {
    message_type: &'static str,
    containers: u64,
    hooks: u64,
    unreadable: u64,
}

pub(crate) fn run(global: &Global, args: &Index, output: Output) -> Result<Code> {
    let Index::Rebuild = args;
    let store = super::open(global)?;
    let monitor = onefold::Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let report = progress::beside(output, "index", &status, || store.rebuild_index(&monitor))?;
    output.line(format!(
        "rebuilt the index: {} from {}",
        count(report.hooks, "hook", "hooks"),
        count(report.containers, "container", "containers")
    ))?;
    for (container, why) in &report.unreadable {
        output.warn(format!("container {container}: {why}; run `onefold check`"))?;
    }
    output.object(&Done {
        message_type: "index_rebuilt",
        containers: report.containers,
        hooks: report.hooks,
        unreadable: report.unreadable.len() as u64,
    })?;
    if output.verbose {
        output.line(format!(
            "{} hooks in {} runs",
            thousands(report.hooks),
            report.runs
        ))?;
    }
    Ok(if report.unreadable.is_empty() {
        Code::Success
    } else {
        Code::Failure
    })
}
