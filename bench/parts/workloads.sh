# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# The steps that every program goes through with one data set. Sourced, never run.
#
# Reads: data_root, work, run, versions_max, backup_state, restore_state, verify_all, scout, narrow,
# and the drivers.

# place VERSION_FOLDER: it gets the name that is backed up, the same for every version. unplace
# gives it back its own.
place() {
  unplace "$(dirname "$1")"
  basename "$1" >"$(dirname "$1")/current.is"
  mv "$1" "$(dirname "$1")/current"
}
unplace() {
  if [ -e "$1/current" ]; then mv "$1/current" "$1/$(cat "$1/current.is")"; fi
  rm -f "$1/current.is"
}

# wants DATA STEP|any: whether the program is still measured there; see --narrow.
wants() {
  if [ "$run" -eq 1 ] && [ -z "$scout" ]; then return; fi
  python3 "$root/bench/parts/report.py" --keeps "$who" "$1" "$2" "$narrow" "${scout:-$rows}" ${scout:+disturbed}
}

# step DATA STEP STATE: times what the driver said.
step() { timed "$1" "$2" "$who" "$3" "${command[@]}"; }

# verify SOURCE: once for each program and label, byte by byte; a wrong restore is a row of its own.
verify() {
  if [ "$run" -gt 1 ] && [ "$verify_all" = no ]; then return; fi
  if diff -r --no-dereference "$1" "$restored" >"$work/diff" 2>&1; then
    json_row data "$data" step verified who "$who" run "$run" of "$2"
  else
    json_row data "$data" step verified who "$who" run "$run" of "$2" failed "$(head -n 1 "$work/diff")"
    say "  $who $data $2: RESTORED SOMETHING ELSE: $(head -n 3 "$work/diff")"
    return 1
  fi
}

# backup DATA STEP SOURCE LABEL yes|no
backup() {
  local kept=""
  if [ "$driver" = onefold ]; then kept="$work/summary"; fi
  prepare "$backup_state" "$3"
  "${driver}_backup" "$3" "$4" "$5" && step "$1" "$2" "$backup_state" || return 1
  if [ -n "$kept" ]; then python3 "$root/bench/parts/noted.py" backup <"$kept" >>"$rows"; fi
}

# restore DATA STEP LABEL SOURCE ORIGINAL: to a fresh folder, compared with ORIGINAL and removed.
restore() {
  local result=0
  if ! wants "$1" "$2"; then return; fi
  prepare "$restore_state" "$store"
  discard_restored "$1"
  "${driver}_restore" "$3" "$4" "$work/out" && step "$1" "$2" "$restore_state" && verify "$5" "$2" || result=1
  discard_restored "$1"
  return $result
}
# discard_restored DATA: where files are few, their space is wanted back at once.
discard_restored() { if [ "$1" = small ]; then discard "$work/out"; else remove_tree "$work/out"; fi; }

# largest_mib DATA: MiB of what is backed up at once.
largest_mib() {
  find "$data_root/$1" -mindepth "$(is_versioned "$1")" -maxdepth "$(is_versioned "$1")" -type d -exec du -sm {} + |
    sort -n | tail -n 1 | cut -f 1
}
# is_versioned DATA: 1 where each folder in it is a version, else 0.
is_versioned() { if compgen -G "$data_root/$1/v[0-9]*" >/dev/null; then echo 1; else echo 0; fi; }

# workload DATA: all steps for the program `who` (its driver and variant are set). A backup that
# fails ends them.
workload() {
  local data=$1 folder="$data_root/$1" versions=() result=0
  mapfile -t versions < <(find "$folder" -maxdepth 1 -name 'v[0-9]*' -type d | sort | head -n "$versions_max")
  "${driver}_new" >/dev/null || return 1
  if [ ${#versions[@]} -eq 0 ]; then
    one_version || result=$?
  else
    many_versions || result=$?
  fi
  if [ "$result" -eq 2 ] || [ "$variant" = off ]; then return "$result"; fi
  if [ "$who" = onefold-zstd ]; then
    json_row data "$data" step stored who "$who" run "$run" bytes "$(stored_bytes "$store")"
    return
  fi
  if wants "$data" check && "${driver}_check"; then
    prepare "$restore_state" "$store"
    step "$data" check "$restore_state" || result=1
  fi
  if wants "$data" list; then
    prepare "$restore_state" "$store"
    "${driver}_list"
    step "$data" list "$restore_state" || result=1
  fi
  json_row data "$data" step stored who "$who" run "$run" bytes "$(stored_bytes "$store")"
  return "$result"
}

# one_version, many_versions: the backups and restores of a workload, with its variables. Status 2:
# a backup failed.
one_version() {
  local result=0
  backup "$data" first "$folder" one no || return 2
  if [ "$variant" = off ]; then return; fi
  if [ "$who-$data-$run" = onefold-random-1 ]; then store_figures || result=1; fi
  if wants "$data" unchanged; then backup "$data" unchanged "$folder" one no || return 2; fi
  if [ "$data" = random ]; then
    if wants "$data" reread; then backup "$data" reread "$folder" one yes || return 2; fi
    dump "$data" one "$folder/file.bin" || result=1
  fi
  restore "$data" restore one "$folder" "$folder" || result=1
  return $result
}
many_versions() {
  local source="$folder/current" result=0 version
  for version in "${versions[@]}"; do
    place "$version"
    backup "$data" "$(if [ "$version" = "${versions[0]}" ]; then echo first; else echo "next-$(basename "$version")"; fi)" \
      "$source" "$(basename "$version")" no || return 2
  done
  if [ "$variant" != image ] && wants "$data" unchanged; then
    backup "$data" unchanged "$source" unchanged no || return 2
  fi
  unplace "$folder"
  if [ "$who" = onefold-zstd ]; then return; fi
  restore "$data" restore-newest "$(basename "$version")" "$source" "$version" || result=1
  restore "$data" restore-oldest "$(basename "${versions[0]}")" "$source" "${versions[0]}" || result=1
  return $result
}

# dump DATA LABEL FILE: the file to /dev/null, for programs that can; for ours, its stored bytes
# alone beside it.
dump() {
  if [ "$who" = onefold ]; then raw_read "$1" || return 1; fi
  if ! wants "$1" dump || ! "${driver}_dump" "$2" "$3"; then return; fi
  prepare "$restore_state" "$store"
  step "$1" dump "$restore_state" || return 1
  if [ "$run" -gt 1 ] && [ "$verify_all" = no ]; then return; fi
  if ! "${command[@]}" 2>/dev/null | cmp --quiet - "$3"; then
    json_row data "$1" step verified who "$who" run "$run" of dump failed "other bytes than the file's"
    say "  $who $1 dump: OTHER BYTES THAN THE FILE'S"
    return 1
  fi
}
