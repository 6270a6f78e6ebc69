# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# How kopia is told to do each step; see onefold.sh. By default it does not compress. Variant: zstd
# (its zstd at the default level). Retention is widened, or it would drop the oldest backup by
# itself; folders that say that they are caches are not left out.

export KOPIA_PASSWORD=bench KOPIA_CHECK_FOR_UPDATES=false
kopia_run() { command=(env KOPIA_CONFIG_PATH="$state/kopia.config" kopia --no-progress --log-level=error --log-dir="$state/kopia-log" "$@"); }

kopia_version() { kopia --version | sed "s/^/kopia /; s/ build:.*//"; }
kopia_new() {
  mkdir -p "$store"
  kopia_run repository create filesystem --path="$store" --cache-directory="$state/kopia-cache"
  "${command[@]}" >/dev/null 2>&1
  kopia_run policy set --global --keep-latest 100 --ignore-cache-dirs=false
  if [ "$variant" = zstd ]; then command+=(--compression=zstd); fi
  "${command[@]}" >/dev/null 2>&1
}
kopia_backup() {
  kopia_run snapshot create --tags "label:$2" "$1"
  if [ "$3" = yes ]; then command+=(--force-hash=100); fi
}
# kopia_id LABEL [FIELD...]: the newest snapshot that has it, or a field of it.
kopia_id() {
  kopia_run snapshot list --all --show-identical --tags "label:$1" --json
  shift
  "${command[@]}" | python3 "$root/bench/parts/newest.py" "$@"
}
kopia_restore() {
  local id
  id=$(kopia_id "$1")
  kopia_run restore "$id" "$3"
  restored=$3
}
kopia_dump() {
  local id
  id=$(kopia_id "$1" rootEntry obj)
  kopia_run show "$id/$(basename "$2")"
}
kopia_check() { kopia_run snapshot verify --verify-files-percent=100; }
kopia_list() { kopia_run snapshot list --all; }
kopia_forget() {
  local ids=() label
  for label in "$@"; do ids+=("$(kopia_id "$label")"); done
  kopia_run snapshot delete --delete "${ids[@]}"
}
# Without its safety margins, with which nothing goes for hours. It has no limit to set.
kopia_prune() { kopia_run maintenance run --full --safety=none; }
