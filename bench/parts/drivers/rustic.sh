# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How rustic is told to do each step; see onefold.sh. It compresses with zstd's default level.

export RUSTIC_PASSWORD=bench
rustic_run() { command=(rustic --log-level error --no-progress --cache-dir "$state/rustic" -r "$store" "$@"); }

rustic_version() { rustic --version; }
rustic_new() {
  rustic_run init
  "${command[@]}" >/dev/null
}
rustic_backup() {
  rustic_run backup --tag "$2" "$1"
  if [ "$3" = yes ]; then command+=(--force); fi
}
# rustic_id LABEL: the newest snapshot that has it.
rustic_id() {
  rustic_run snapshots --json --filter-tags "$1"
  "${command[@]}" | python3 "$root/bench/parts/newest.py"
}
rustic_restore() {
  local id
  id=$(rustic_id "$1")
  rustic_run restore "$id:$2" "$3"
  restored=$3
}
rustic_dump() {
  local id
  id=$(rustic_id "$1")
  rustic_run dump "$id:$2"
}
rustic_check() { rustic_run check --read-data; }
rustic_list() { rustic_run snapshots; }
rustic_forget() {
  local ids=() label
  for label in "$@"; do ids+=("$(rustic_id "$label")"); done
  rustic_run forget "${ids[@]}"
}
rustic_together() {
  local limit=$1
  shift
  rustic_forget "$@"
  command+=(--prune --instant-delete)
  if [ "$limit" != default ]; then command+=(--max-repack unlimited --max-unused "$limit"); fi
}
# By default it copies no more than a tenth of the store, and deletes what is free a day later, with
# another run.
rustic_prune() {
  rustic_run prune --instant-delete
  if [ "$1" != default ]; then command+=(--max-repack unlimited --max-unused "$1"); fi
}
