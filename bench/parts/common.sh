# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# What the scripts of bench/ share: messages, disk space, the folder of data. Sourced, never run.

say() { echo "$*" >&2; }
fail() { say "$*"; exit 1; }
# usage SCRIPT: its head.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/^# shellcheck/ { sub(/^# ?/, ""); print }' "$1"; }

# data_folder yes|no: prints the default folder of the data sets. Quick ones have another than full
# ones.
data_folder() {
  local suffix=""
  if [ "$1" = yes ]; then suffix="-quick"; fi
  echo "${ONEFOLD_BENCH_DATA:-${TMPDIR:-/tmp}/onefold-data$suffix}"
}

# need_space FOLDER MIB: fails unless so much is free, and 2 GiB besides.
need_space() {
  local free
  free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
  [ "$free" -ge $(($2 + 2048)) ] || fail "$1: $free MiB free, $(($2 + 2048)) needed"
}

# discard FOLDER: put aside until all is done. ext4 passes over inodes freed in the last minutes one
# by one, so that creating files after deleting as many takes several times as long, with any
# program.
discard() {
  if [ ! -e "$1" ]; then return; fi
  mkdir -p "$work/aside"
  aside_count=$((${aside_count:-0} + 1))
  mv "$1" "$work/aside/$aside_count"
}

# remove_tree FOLDER: what is mounted below stays.
remove_tree() {
  rm -rf --one-file-system "$1"
}
