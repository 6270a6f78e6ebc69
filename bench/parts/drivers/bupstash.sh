# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How bupstash is told to do each step; see onefold.sh. It has no check that reads all data.

bupstash_run() {
  command=(env BUPSTASH_REPOSITORY="$store" BUPSTASH_KEY="$state/bupstash.key" BUPSTASH_SEND_LOG="$state/bupstash.sendlog"
    BUPSTASH_QUERY_CACHE="$state/bupstash.qcache" bupstash "$@")
}

bupstash_version() { bupstash version; }
bupstash_new() {
  bupstash_run new-key -o "$state/bupstash.key"
  "${command[@]}"
  bupstash_run init
  "${command[@]}"
}
bupstash_backup() {
  bupstash_run put --quiet
  if [ "$3" = yes ]; then command+=(--no-send-log); fi
  command+=("label=$2" "$1")
}
# bupstash_id LABEL: the newest item that has it.
bupstash_id() {
  bupstash_run list --quiet --format=jsonl1 "label=$1"
  "${command[@]}" | tail -n 1 | python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["id"])'
}
bupstash_restore() {
  local id
  id=$(bupstash_id "$1")
  mkdir -p "$3"
  bupstash_run restore --quiet --ownership --xattrs --into "$3" "id=$id"
  restored=$3
}
bupstash_dump() {
  local id
  id=$(bupstash_id "$1")
  bupstash_run get --quiet --pick "$(basename "$2")" "id=$id"
}
bupstash_check() { return 1; }
bupstash_list() { bupstash_run list --quiet; }
