//! Mounted backups: the file system without FUSE, and once with it.

mod bed;
mod content;
mod costs;
mod damage;
mod names;
mod real;
mod tops;
