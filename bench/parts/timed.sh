# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# Runs one command under GNU time and writes one row of what it took. Sourced, never run.
#
# Reads: work, rows, run, step_seconds_max. A row is one JSON object a line.

# json_row KEY VALUE...: strings are quoted, numbers not; an empty value is null.
json_row() {
  local line="" key value
  while [ $# -gt 0 ]; do
    key=$1 value=$2
    shift 2
    if [ -z "$value" ]; then
      value=null
    elif ! [[ $value =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
      value=${value//\\/\\\\}
      value="\"${value//\"/\\\"}\""
    fi
    line+="${line:+, }\"$key\": $value"
  done
  echo "{$line}" >>"$rows"
}

# read_all PATH...: so that the page cache holds them. tar skips reading where its output is
# /dev/null itself.
read_all() { tar cf - -P "$@" 2>/dev/null | cat >/dev/null; }

# prepare warm|cold PATH...: what the command will read is in the page cache, or nothing is; nothing
# waits to be written.
prepare() {
  local state=$1
  shift
  sync
  if [ "$state" = cold ]; then
    echo 3 >/proc/sys/vm/drop_caches
  else
    read_all "$@"
  fi
}

# seconds_since EPOCHREALTIME
seconds_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.3f", to - from }'; }

# timed DATA STEP WHO STATE COMMAND...: one row; standard output is thrown away. A command that
# fails gives a row that says so, and status 1; one that takes longer than is allowed, a row without
# a time. The time that `sync` takes afterwards is told apart: programs differ in what they
# leave to the system. Standard output goes to `$kept` where that is set.
timed() {
  local data=$1 step=$2 who=$3 state=$4 status=0 from seconds synced user system peak
  shift 4
  from=$EPOCHREALTIME
  /usr/bin/time -o "$work/time" -f '%U %S %M' timeout --foreground "$step_seconds_max" "$@" \
    >"${kept:-/dev/null}" 2>"$work/stderr" || status=$?
  if [ "$status" -eq 124 ]; then
    json_row data "$data" step "$step" who "$who" run "$run" state "$state" exceeded "$step_seconds_max"
    say "  $who $data $step stopped after $step_seconds_max s"
    return
  elif [ "$status" -ne 0 ]; then
    json_row data "$data" step "$step" who "$who" run "$run" failed "$(tail -n 1 "$work/stderr" | tr -d '\000-\037')"
    say "  $who $data $step FAILED: $(tail -n 3 "$work/stderr")"
    return 1
  fi
  seconds=$(seconds_since "$from")
  from=$EPOCHREALTIME
  sync -f "$work"
  synced=$(seconds_since "$from")
  read -r user system peak < <(tail -n 1 "$work/time")
  json_row data "$data" step "$step" who "$who" run "$run" state "$state" \
    seconds "$seconds" sync_seconds "$synced" user "$user" system "$system" peak_kib "$peak"
  say "  $who $data $step $seconds s (+ $synced s sync), $user + $system s of processor, $((peak / 1024)) MiB"
}

# stored_bytes FOLDER: the bytes of all files, without their holes.
stored_bytes() {
  find "$1" -type f -printf '%s %b\n' | awk '{ held = $2 * 512; sum += held < $1 ? held : $1 } END { printf "%.0f", sum }'
}
