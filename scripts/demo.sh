#!/bin/sh
# Set up, tell three textures apart in images with a page to look at, and do it again behind features that are noise.
set -eu
. "$(dirname "$0")/venv.sh"

echo
echo "192 images of brick, grass and gravel: which belong together?"
echo "\$ mccgr run sample_data/textures --k 3 --preset paper -o demo"
mccgr run sample_data/textures --k 3 --preset paper -o demo

noisy=sample_data/textures_noisy.h5
echo
echo "The same images by 118 other features, and 24 more of nothing but noise:"
report() { printf '  %-28s accuracy %.3f   NMI %.3f\n' "$1" "$(echo "$2" | cut -d, -f1)" "$(echo "$2" | cut -d, -f2)"; }
report "k-means" "$(mccgr cluster "$noisy" --k 3 --normalize hellinger -q -o - | mccgr evaluate - --format csv | tail -n 1)"
for method in l2 grnmf mccgr; do
    scores=$(mccgr factorize "$noisy" --k 3 --method "$method" -q -o - |
        mccgr cluster - -q -o - | mccgr evaluate - --format csv | tail -n 1)
    report "mccgr --method $method" "$scores"
done

echo
echo "Now open demo/report.html in a browser: the images of each cluster, a map of them, and how they were found."
