#!/bin/sh
# Set up, then find three textures among pictures whose description is full of noise.
set -eu
. "$(dirname "$0")/venv.sh"

X=sample_data/textures_noisy.h5
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo
echo "192 pictures of brick, grass and gravel: 118 useful features, 24 of nothing but noise"
echo
show() { echo "\$ $*"; "$@"; }
show mccgr factorize "$X" --k 3 --normalize sqrt -o "$out/factors.h5"
show mccgr cluster "$out/factors.h5" -o "$out/clusters.h5"
show mccgr evaluate "$out/clusters.h5"

echo
echo "The same with other methods:"
report() { printf '  %-28s accuracy %.3f   NMI %.3f\n' "$1" "$(echo "$2" | cut -d, -f1)" "$(echo "$2" | cut -d, -f2)"; }
report "k-means" "$(mccgr cluster "$X" --k 3 --normalize sqrt -q -o - | mccgr evaluate - --format csv | tail -n 1)"
for method in l2 grnmf mccgr; do
    scores=$(mccgr factorize "$X" --k 3 --normalize sqrt --method "$method" -q -o - |
        mccgr cluster - -q -o - | mccgr evaluate - --format csv | tail -n 1)
    report "mccgr --method $method" "$scores"
done
