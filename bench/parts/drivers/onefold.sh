# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How Onefold is told to do each step. A driver only says commands: it sets `command`, and
# `restored`, the folder where the source's copy will be. Reads: store, state, variant, onefold.
# Variants: off (no compression), zstd (at level 3, which is the peers'), image (a disk image in
# fixed chunks of 4 KiB).

onefold_version() { "$onefold" --version; }
onefold_new() { ONEFOLD_PASSWORD=bench "$onefold" -q -r "$store" init --reserve-mib 0; }
# SOURCE LABEL yes|no (read all again)
onefold_backup() {
  command=("$onefold" -q --json -r "$store" backup --tag "$2")
  if [ "$3" = yes ]; then command+=(--force); fi
  case $variant in
    off) command+=(--compression off "$1") ;;
    zstd) command+=(--compression-level 3 "$1") ;;
    image) command+=(--image-kib 4 "$1/disk.img") ;;
    *) command+=("$1") ;;
  esac
}
# LABEL SOURCE TARGET
onefold_restore() {
  command=("$onefold" -q -r "$store" restore latest --tag "$1" --target "$3")
  restored="$3$2"
}
# LABEL FILE
onefold_dump() {
  if ! "$onefold" dump --help >/dev/null 2>&1; then return 1; fi
  command=("$onefold" -q -r "$store" dump latest "$2" --tag "$1")
}
onefold_check() { command=("$onefold" -q -r "$store" check --read-data); }
onefold_list() { command=("$onefold" -q -r "$store" snapshots); }
# onefold_id LABEL: the newest backup that has it.
onefold_id() {
  "$onefold" -q --json -r "$store" snapshots --tag "$1" | paste -sd, | sed 's/.*/[&]/' | python3 "$root/bench/parts/newest.py"
}
# LABEL...
onefold_forget() {
  local ids=() label
  for label in "$@"; do ids+=("$(onefold_id "$label")"); done
  command=("$onefold" -q -r "$store" forget "${ids[@]}")
}
# onefold_together LIMIT LABEL...: both in one command.
onefold_together() {
  local limit=$1
  shift
  onefold_forget "$@"
  command+=(--prune)
  if [ "$limit" != default ]; then command+=(--max-unused "$limit"); fi
}
# default|LIMIT: how much may stay unused.
onefold_prune() {
  command=("$onefold" -q --json -r "$store" prune)
  if [ "$1" != default ]; then command+=(--max-unused "$1"); fi
}
