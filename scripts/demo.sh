#!/bin/sh
# Install mccgr, cluster images of three textures, write a report, and compare four methods on noisy features.
set -eu
EXTRAS=cnn
. "$(dirname "$0")/venv.sh"

echo
echo "Part 1: cluster 192 images of brick, grass and gravel."
echo "\$ mccgr run sample_data/textures --model efficientnet-lite0 --k 3 -o demo"
mccgr run sample_data/textures --model efficientnet-lite0 --k 3 --overwrite -o demo

noisy=sample_data/textures_noisy.h5
echo
echo "Part 2: the same images, described by 118 other features, plus 24 features of pure noise:"
report() { printf '  %-28s accuracy %.3f   NMI %.3f\n' "$1" "$(echo "$2" | cut -d, -f1)" "$(echo "$2" | cut -d, -f2)"; }
report "k-means" "$(mccgr cluster "$noisy" --k 3 --normalize hellinger -q -o - | mccgr evaluate - --format csv | tail -n 1)"
for method in l2 grnmf mccgr; do
    scores=$(mccgr factorize "$noisy" --k 3 --method "$method" -q -o - |
        mccgr cluster - -q -o - | mccgr evaluate - --format csv | tail -n 1)
    report "mccgr --method $method" "$scores"
done

echo
echo "Now open demo/report.html in a browser. It shows the images of each cluster, a map, and how the clusters were found."
