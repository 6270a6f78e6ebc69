//! `onefold mount`

use anyhow::Result;
use cli_support::output::{Output, local_moment};
use cli_support::{Code, output};
use mount::MountOptions;
use serde::Serialize;

use crate::args::{Global, Mount};

#[derive(Serialize)]
struct Line {
    message_type: &'static str,
    mountpoint: String,
}

pub(crate) fn run(global: &Global, args: &Mount, output: Output) -> Result<Code> {
    super::typed::ensure_expanded(&args.at)?;
    let stop = super::cancel_flag()?;
    let filter = super::filter(&args.filter)?;
    let options = MountOptions {
        filter,
        cache_bytes: args.memory,
        is_for_all: args.allow_other,
        checks_permissions: !args.no_default_permissions,
        is_owner_root: args.owner_root,
        owner: owner(args),
        on_fault: std::sync::Arc::new(move |fault| {
            // Standard error is closed, so nothing can be reported.
            drop(output.warn(format!("warning: {fault}")));
        }),
        ..MountOptions::new(|time| local_moment(time.get()))
    };
    let repository = super::open_anywhere(global)?.leaked();
    let mounted = mount::mount(repository, &args.at, options)?;
    let at = mounted.at().display().to_string();
    output.line(format!(
        "mounted on {}; end with Ctrl-C or umount",
        output::lossy(at.as_bytes())
    ))?;
    let line = |message_type| Line {
        message_type,
        mountpoint: at.clone(),
    };
    output.object(&line("mounted"))?;
    mounted.wait(&stop)?;
    output.object(&line("unmounted"))?;
    Ok(Code::Success)
}

/// User and group of the folders above the backups.
fn owner(args: &Mount) -> (u32, u32) {
    if args.owner_root {
        return (0, 0);
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    (user.as_raw(), group.as_raw())
}
