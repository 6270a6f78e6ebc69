# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How restic is told to do each step; see onefold.sh. Its default compression, "auto", is zstd's
# default level.

export RESTIC_PASSWORD=bench RESTIC_PROGRESS_FPS=0
restic_run() { command=(env RESTIC_CACHE_DIR="$state/restic" restic -q -r "$store" "$@"); }

restic_version() { restic version; }
restic_new() { RESTIC_CACHE_DIR="$state/restic" restic -q -r "$store" init; }
restic_backup() {
  restic_run backup --tag "$2" "$1"
  if [ "$3" = yes ]; then command+=(--force); fi
}
restic_restore() {
  restic_run restore latest --tag "$1" --target "$3"
  restored="$3$2"
}
restic_dump() { restic_run dump --tag "$1" latest "$2"; }
restic_check() { restic_run check --read-data; }
restic_list() { restic_run snapshots; }
# restic_id LABEL: the newest snapshot that has it.
restic_id() {
  restic_run snapshots --json --tag "$1"
  "${command[@]}" | python3 "$root/bench/parts/newest.py"
}
restic_forget() {
  local ids=() label
  for label in "$@"; do ids+=("$(restic_id "$label")"); done
  restic_run forget "${ids[@]}"
}
restic_together() {
  local limit=$1
  shift
  restic_forget "$@"
  command+=(--prune)
  if [ "$limit" != default ]; then command+=(--max-unused "$limit"); fi
}
restic_prune() {
  restic_run prune
  if [ "$1" != default ]; then command+=(--max-unused "$1"); fi
}
