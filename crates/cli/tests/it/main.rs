//! The program as its users run it: the real binary, real files, exit codes, messages, signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in the system's own time"
)]

mod access;
mod analyze;
mod archives;
mod attached;
mod backup_options;
mod backups;
mod bed;
mod careful;
mod checking;
mod comparing;
mod control;
mod copying;
mod cuts;
mod disks;
mod documents;
mod dump;
mod exit_codes;
mod far;
mod filters;
mod flags;
mod forget;
mod healing;
mod idle;
mod interruptions;
mod json;
mod listed;
mod log;
mod main_job;
mod mounted;
mod names;
mod object_stores;
mod optimize;
mod passwords;
mod picture;
mod pooled;
mod pools;
mod profiles;
mod prune;
mod ran;
mod repairs;
mod restore_options;
mod restores;
mod round_trips;
mod screen;
mod self_test;
mod series;
mod served;
mod server;
mod server_verbs;
mod shares;
mod sources;
mod tunnels;
mod typed;
mod unread;
mod vault;
mod volumes;
