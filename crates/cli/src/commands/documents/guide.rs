//! The texts of manual pages that clap does not make: examples, passwords, profiles, exit codes. A
//! reader who has nothing but the pages understands them.
//!
//! A text has lines with `# ` for headings of sections, indented lines for examples, `= ` for a
//! term, whose explanation is the next paragraph, and paragraphs.

/// Of `onefold`, after its description.
const MAIN: &str = "\
# EXAMPLES
Make a store in a folder, back up the home folders, and restore them:

    export ONEFOLD_REPOSITORY=/mnt/backup/store
    onefold init
    onefold backup /home
    onefold snapshots
    onefold restore latest --target /tmp/back

A restore creates the paths of the backup below the target: `/tmp/back` gets `/tmp/back/home`. The \
target `/` puts all files back to where they were, and replaces files that were changed since the \
backup. `--dry-run` shows which; `--overwrite if-newer` keeps the newer ones.

# PASSWORD
Nobody can read a store without its password, so keep a copy of the password in a second place. \
Give the password as `--password-file` or `--password-command`. Without these the program takes the first of \
`ONEFOLD_PASSWORD_FILE`, `ONEFOLD_PASSWORD_COMMAND` and `ONEFOLD_PASSWORD` that is set. Otherwise it \
asks on the terminal.

# OBJECT STORES
The bucket must exist, and the object store must support conditional writes, which `init` tries. The \
credentials for S3 are those of the tools of AWS: variables, or a profile of `~/.aws/credentials` \
that `AWS_PROFILE` names.

    export AWS_ACCESS_KEY_ID=KEY AWS_SECRET_ACCESS_KEY=SECRET
    onefold -r s3:https://s3.example.org/backups/laptop init

`AWS_REGION` names the region if the host does not. Stores of Google are `gs:BUCKET/PREFIX`, those of \
Azure `azure:CONTAINER/PREFIX`. Object stores have no locks. So a prune that needs to know of a killed \
backup waits until that backup has been silent for half an hour, unless both ran on this machine with \
the same cache folder. Backups and restores do not wait.

# PROFILES
A profile is a file with a store, its backups and their options, so that commands are short. This may \
be `/etc/onefold/home.toml`:

    [global]
    repo = \"s3:https://s3.example.org/backups/laptop\"

    [environment]
    AWS_ACCESS_KEY_ID = \"KEY\"
    AWS_SECRET_ACCESS_KEY = \"SECRET\"

    [[backup]]
    paths = [\"/home\", \"/etc\"]
    exclude-caches = true

    [forget]
    keep-daily = 7
    keep-monthly = 12
    prune = true

Keys are the long names of options. If the file has secrets, let only its owner read it (`chmod 600`).

    onefold -P home init
    onefold -P home backup
    onefold -P home restore latest --target /tmp/back

# TIMERS
Units of systemd run the profiles of `/etc/onefold`. Write the password into \
`/etc/onefold/home.password`, which only root may read, unless the profile has `password-file` or \
another option that says the password. Run `init` once. Then

    systemctl enable --now onefold-backup@home.timer

makes the backups of the profile `home` once a day. `onefold-forget@home.timer` runs `forget` once a \
week, and `onefold-check@home.timer` runs `check` once a day. To run one now, and to read what it said:

    systemctl start onefold-backup@home.service
    journalctl -u onefold-backup@home.service

A command that you type needs the password too, such as

    onefold -P home -p /etc/onefold/home.password snapshots

# EXIT STATUS
= 0
All went well.
= 1
The command failed, or did only a part of its work. A message says which.
= 2
The command line is not understood, or an option in it could have no effect.
= 3
A backup was made, but something in it could not be read. A message names it. Or `copy` could not \
copy a backup, because the source has damaged data.
= 10
There is no store, or no such bucket.
= 12
The password does not open the store.
= 130
Somebody asked to stop.

# ENVIRONMENT
The options name their variables. Others are:

= ONEFOLD_PASSWORD
The password itself.
= ONEFOLD_CACHE_DIR
The folder with what this machine keeps of stores that are far away; by default `~/.cache/onefold`.
= ONEFOLD_CONFIG_DIR
The folder with profiles and the tokens of servers; by default `~/.config/onefold`.
= ONEFOLD_LOG
What is logged: a level, such as `debug`.

# FILES
= /etc/onefold/NAME.toml, ~/.config/onefold/NAME.toml
Profiles.
= /etc/onefold/NAME.password
The password that the units of systemd pass on.
= /usr/share/doc/onefold/docs/cli.md
The command line in full.
= /usr/share/doc/onefold/docs/operating.md
What to do when a password, a disk or a machine is lost, and other instructions step by step.
";

const INIT: &str = "\
# EXAMPLES
    onefold -r /mnt/backup/store init
    onefold -r s3:https://s3.example.org/backups/laptop init
    onefold -P home init

The program asks for a password, or takes the one that is configured. It does not make a bucket.
";

const BACKUP: &str = "\
# EXAMPLES
Back up folders:

    onefold -r /mnt/backup/store backup /home /etc --exclude-caches --exclude '*.tmp'

Make the backups of the profile `/etc/onefold/home.toml`:

    onefold -P home backup

Back up what a command prints, and a disk:

    onefold backup --stdin-from-command --stdin-filename shop.sql -- pg_dump shop
    onefold backup --image-kib 64 /dev/vg/web

A backup that was interrupted leaves nothing to clean up. Run it again: it stores no data a second \
time that the store has already.

# EXIT STATUS
The status is 0 if all was backed up. It is 3 if a backup was made that lacks something, which a \
message names, and 1 if none was made.
";

const RESTORE: &str = "\
# EXAMPLES
Restore everything to where it was:

    onefold restore latest --target /

This replaces files that were changed since the backup. `--dry-run` shows which; `--overwrite \
if-newer` keeps the newer ones.

Restore one folder of the newest backup into another place, to look at it:

    onefold restore latest --include /home/ada/letters --target /tmp/back

The files are in `/tmp/back/home/ada/letters` then. To restore what a folder has, without the owner \
and the mode of the folder itself:

    onefold restore latest:/home/ada/letters --target /tmp/letters

`onefold snapshots` lists the backups with their ids, and `onefold ls ID` the files of one.

# EXIT STATUS
The status is 1 if something could not be restored as it was. A message names it.
";

const FORGET: &str = "\
# EXAMPLES
See what rules would forget, and do it:

    onefold forget --keep-daily 7 --keep-monthly 12 --dry-run
    onefold forget --keep-daily 7 --keep-monthly 12 --prune

Forgetting frees no space by itself: `--prune` does, or `onefold prune`.
";

/// What the pages of commands have at their end.
const ELSEWHERE: &str = "\
# SEE ALSO
`onefold`(1) has the password, object stores, profiles, timers, exit codes and variables.
";

/// The sections of a command's page after its description, and those at its end, in roff.
pub(super) fn of(command: &str) -> (String, String) {
    let text = match command {
        "onefold" => MAIN,
        "onefold init" => INIT,
        "onefold backup" => BACKUP,
        "onefold restore" => RESTORE,
        "onefold forget" => FORGET,
        _ => "",
    };
    let end = if command == "onefold" { "" } else { ELSEWHERE };
    (roff(text), roff(end))
}

/// The same text for the formatter of manual pages.
pub(super) fn roff(text: &str) -> String {
    let mut out = String::new();
    let (mut is_example, mut begins) = (false, false);
    for line in text.lines() {
        let example = line.strip_prefix("    ");
        // An empty line within an example belongs to it.
        if is_example && example.is_none() && !line.is_empty() {
            out.push_str(".fi\n.RE\n");
            is_example = false;
        }
        if let Some(example) = example {
            if !is_example {
                out.push_str(if begins {
                    ".PP\n.RS 4\n.nf\n"
                } else {
                    ".RS 4\n.nf\n"
                });
                is_example = true;
            } else if begins {
                out.push('\n');
            }
            push_line(&mut out, example);
        } else if let Some(heading) = line.strip_prefix("# ") {
            out.extend([".SH ", heading, "\n"]);
        } else if let Some(term) = line.strip_prefix("= ") {
            out.push_str(".TP\n");
            push_line(&mut out, term);
        } else if !line.is_empty() {
            if begins {
                out.push_str(".PP\n");
            }
            push_line(&mut out, line);
        }
        begins = line.is_empty();
    }
    if is_example {
        out.push_str(".fi\n.RE\n");
    }
    out
}

/// A line as it is: what begins with a dot is no request.
fn push_line(out: &mut String, line: &str) {
    if line.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    out.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_roff() {
        let text =
            "# HEAD\none - two\n\n    first\n\n    .second \\\n\nafter\n= term\nwhat it is\n\n= next\nmore\n";
        assert_eq!(
            roff(text),
            ".SH HEAD\none \\- two\n.PP\n.RS 4\n.nf\nfirst\n\n\\&.second \\e\n.fi\n.RE\n.PP\nafter\n.TP\nterm\nwhat it \
             is\n.TP\nnext\nmore\n"
        );
        assert!(roff("# A\n    x\n").ends_with(".nf\nx\n.fi\n.RE\n"));
    }
}
