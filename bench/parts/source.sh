#!/usr/bin/env bash
# Fetches successive releases of one large project as source archives, through pip, and unpacks each
# into a folder of its own: source.sh yes|no FOLDER (yes: few small ones).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=bench/parts/common.sh
. "$here/common.sh"

if [ "$1" = yes ]; then
  project=ansible-core
  releases="2.16.1 2.16.2 2.16.3"
else
  # The community package: some 40,000 files of sources, tests and documents of a hundred
  # collections.
  project=ansible
  releases="9.1.0 9.2.0 9.3.0 9.4.0 9.5.1 9.6.1 9.7.0 9.8.0 9.9.0 9.10.0"
fi
folder=$2
archives="$folder.archives"
mkdir -p "$archives"
# pip asks each archive for its metadata before it keeps it, which takes most of the time.
number=0
for release in $releases; do
  number=$((number + 1))
  version=$(printf 'v%02d' "$number")
  say "$project $release as $version"
  python3 -m pip download --quiet --no-deps --no-binary "$project" --dest "$archives" "$project==$release"
  mkdir -p "$folder/$version"
  tar xzf "$archives/$project-$release.tar.gz" -C "$folder/$version" --strip-components=1 --no-same-owner 2>/dev/null ||
    tar xzf "$archives/${project//-/_}-$release.tar.gz" -C "$folder/$version" --strip-components=1 --no-same-owner
done
rm -rf "$archives"
