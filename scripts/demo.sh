#!/bin/sh
# Set up, tell three textures apart in pictures, and do it again behind features that are nothing but noise.
set -eu
. "$(dirname "$0")/venv.sh"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
show() { echo; echo "\$ $*"; "$@"; }

echo
echo "192 pictures of brick, grass and gravel: which belong together?"
show mccgr extract sample_data/textures --step 4 --radii 4,8 -o "$out/X.h5"
show mccgr factorize "$out/X.h5" --k 3 --preset paper --normalize sqrt -o "$out/factors.h5"
show mccgr cluster "$out/factors.h5" -o "$out/clusters.h5"
show mccgr evaluate "$out/clusters.h5"

noisy=sample_data/textures_noisy.h5
echo
echo "The same pictures by 118 other features, and 24 more of nothing but noise:"
report() { printf '  %-28s accuracy %.3f   NMI %.3f\n' "$1" "$(echo "$2" | cut -d, -f1)" "$(echo "$2" | cut -d, -f2)"; }
report "k-means" "$(mccgr cluster "$noisy" --k 3 --normalize hellinger -q -o - | mccgr evaluate - --format csv | tail -n 1)"
for method in l2 grnmf mccgr; do
    scores=$(mccgr factorize "$noisy" --k 3 --method "$method" -q -o - |
        mccgr cluster - -q -o - | mccgr evaluate - --format csv | tail -n 1)
    report "mccgr --method $method" "$scores"
done
