#!/usr/bin/env bash
# Makes successive states of one disk image: Debian in ext4, packages installed in place between the
# states. image.sh yes|no FOLDER (yes: a small one). Needs root: it mounts the image through a loop
# device.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=bench/parts/common.sh
. "$here/common.sh"

if [ "$1" = yes ]; then
  mib=600
  steps=("less" "nano" "file")
else
  mib=2048
  steps=("build-essential git" "python3-dev python3-numpy vim" "postgresql imagemagick")
fi
folder=$2
image="$folder/current.img"
root="$folder/root"
[ "$(id -u)" = 0 ] || fail "the disk image is made by mounting it, which needs root"
command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap >/dev/null; }

unmount() {
  local part
  for part in proc dev; do
    if mountpoint -q "$root/$part"; then umount "$root/$part"; fi
  done
  if mountpoint -q "$root"; then umount "$root"; fi
}
trap unmount EXIT

mount_image() {
  mount -o loop "$image" "$root"
  mkdir -p "$root/proc" "$root/dev"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
}

# keep NUMBER: the image as it stands, holes kept.
keep() {
  mkdir -p "$folder/v$1"
  cp --sparse=always "$image" "$folder/v$1/disk.img"
}

truncate -s "${mib}M" "$image"
mkfs.ext4 -q -F -U 0ef01d00-0000-4000-8000-000000000001 -E lazy_itable_init=0,lazy_journal_init=0 "$image"
mkdir -p "$root"
mount -o loop "$image" "$root"
say "debootstrap"
debootstrap --variant=minbase bookworm "$root" >"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; exit 1; }
unmount
keep 1
number=1
for packages in "${steps[@]}"; do
  number=$((number + 1))
  say "state $number: $packages"
  mount_image
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # shellcheck disable=SC2086 # several packages
  {
    chroot "$root" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends $packages
  } >>"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; exit 1; }
  unmount
  keep "$number"
done
rm -rf --one-file-system "$image" "$root" "$folder/log"
