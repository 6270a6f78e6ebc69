# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How borg is told to do each step; see onefold.sh. By default it compresses with lz4. Variant: zstd
# (level 3).

export BORG_PASSPHRASE=bench BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
# The program itself: a shim of pyenv in its place would cost a shell at every start.
borg_program() {
  local found
  found=$(command -v borg)
  case $found in
    */shims/*) pyenv which borg ;;
    *) echo "$found" ;;
  esac
}
borg_run() { command=(env BORG_BASE_DIR="$state/borg" "$(borg_program)" "$@"); }

borg_version() { borg --version; }
borg_new() {
  mkdir -p "$state/borg"
  borg_run init --encryption repokey "$store"
  "${command[@]}" 2>/dev/null
}
borg_backup() {
  borg_run create
  if [ "$variant" = zstd ]; then command+=(--compression "zstd,3"); fi
  if [ "$3" = yes ]; then command+=(--files-cache disabled); fi
  command+=("$store::$2-{now:%s%f}" "$1")
}
borg_name() { # LABEL: the newest archive that has it
  borg_run list --short --last 1 --glob-archives "$1-*" "$store"
  "${command[@]}"
}
borg_restore() {
  local name
  name=$(borg_name "$1")
  mkdir -p "$3"
  borg_run extract "$store::$name"
  command=(env -C "$3" "${command[@]}")
  restored="$3$2"
}
borg_dump() {
  local name
  name=$(borg_name "$1")
  borg_run extract --stdout "$store::$name" "${2#/}"
}
borg_check() { borg_run check --verify-data "$store"; }
borg_list() { borg_run list "$store"; }
borg_forget() {
  local names=() label
  for label in "$@"; do names+=("$(borg_name "$label")"); done
  borg_run delete "$store::${names[0]}" "${names[@]:1}"
}
# Its limit is one of each segment file, not of the store: a tenth by default.
borg_prune() {
  borg_run compact
  if [ "$1" != default ]; then command+=(--threshold "${1%\%}"); fi
  command+=("$store")
}
