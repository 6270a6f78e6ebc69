# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with who sources this
# The limits of the machine that figures are held against: the disk alone, tar, a walk. Sourced,
# never run.

# read_store FOLDER cat|direct: every file above 1 MiB, in order of names, thrown away.
read_store() {
  if [ "$2" = cat ]; then
    find "$1" -type f -size +1M -print0 | sort -z | xargs -0 cat >/dev/null
  else
    find "$1" -type f -size +1M | sort | while read -r file; do
      dd if="$file" of=/dev/null bs=16M iflag=direct status=none
    done
  fi
}

# raw_read DATA: reads all bytes of the current store, through the page cache and past it.
raw_read() {
  export -f read_store
  prepare "$restore_state" "$store"
  timed "$1" store-read cat "$restore_state" bash -c "read_store '$store' cat"
  prepare "$restore_state" "$store"
  timed "$1" store-read dd-direct "$restore_state" bash -c "read_store '$store' direct"
}

# own DATA: rows of the machine itself.
own() {
  local folder="$data_root/$1"
  case $1 in
    random)
      prepare "$backup_state" "$folder"
      timed random write dd "$backup_state" dd if="$folder/file.bin" of="$work/dd.out" bs=1M conv=fdatasync status=none
      rm -f "$work/dd.out"
      prepare "$backup_state" "$folder"
      timed random write dd-direct "$backup_state" \
        dd if="$folder/file.bin" of="$work/dd.out" bs=16M oflag=direct conv=fdatasync status=none
      rm -f "$work/dd.out"
      bound "$folder/file.bin"
      ;;
    small)
      [ -e "$folder.tar" ] || tar cf "$folder.tar" -C "$folder" .
      discard "$work/out"
      mkdir "$work/out"
      prepare "$restore_state" "$folder.tar"
      timed small restore tar "$restore_state" tar xf "$folder.tar" -C "$work/out"
      discard "$work/out"
      prepare "$backup_state" "$folder"
      timed small unchanged find "$backup_state" find "$folder" -printf '%s %T@ %p\n'
      ;;
  esac
}

# bound FILE: read, chunk and fingerprint on all cores, nothing else; from a warm page cache.
bound() {
  prepare warm "$1"
  timed random reread bound warm "$root/bench/bound/target/release/bound" "$1"
}

# build_bound: the program for that, which is our own.
build_bound() {
  cargo build --quiet --release --manifest-path "$root/bench/bound/Cargo.toml" --target-dir "$root/bench/bound/target"
}

# store_figures: rows of what the index of the current store costs, on disk and in memory that is
# nearly full.
store_figures() {
  local memory_mib
  for memory_mib in "" 4; do
    "$onefold" -q --json -r "$store" ${memory_mib:+--index-memory-mib "$memory_mib"} stats |
      python3 "$root/bench/parts/noted.py" stats >>"$rows" || return 1
  done
}

# stage_figures: what bench/micro measures.
stage_figures() {
  if [ ! -e "$root/bench/micro/Cargo.toml" ]; then return; fi
  cargo run --quiet --release --manifest-path "$root/bench/micro/Cargo.toml" --target-dir "$root/bench/micro/target" -- \
    --json --only chunk | python3 "$root/bench/parts/noted.py" micro >>"$rows"
}
