#!/bin/sh
# Make again every table and figure of docs/REPRODUCTION.md.
#
#     sh benchmarks/reproduce.sh DATA [OUT]
#
# DATA holds caltech101/, a folder for each category, and matrices/COIL20.mat and TDT2.mat. OUT (default: reproduction)
# receives the results; what is there already is not made again, and a run that was killed goes on where it was.
# Needs mccgr with the extra "plot" (pip install '.[plot]'). Takes about 80 minutes on two cores.
set -eu
here=$(dirname "$0")
data=$1 out=${2:-reproduction}
mkdir -p "$out/figures" "$out/ablation"

compare() { # RESULTS MATRIX OPTION...: an experiment, unless it is there
    results=$out/$1 matrix=$out/$2
    shift 2
    [ -e "$results" ] || mccgr experiment "$matrix" -q "$@" -o "$results"
}

[ -e "$out/X.1000.h5" ] || mccgr extract "$data/caltech101" --words 300,1000 -o "$out/X.h5" --overwrite
for words in 300 1000; do
    compare "defaults.$words.h5" "X.$words.h5" --methods all --k 2-10 --runs 50
    compare "paper.$words.h5" "X.$words.h5" --methods all --k 2-10 --runs 50 --preset paper
done
# Whether mccgr or grnmf, given the same graph and start, is ahead takes more draws to tell.
compare many.300.h5 X.300.h5 --methods mccgr,mcc,grnmf,k-means,k-means-weighted --k 2-10 --runs 200 --seed 1
compare alpha.h5 X.300.h5 --methods mccgr,grnmf --k 2 --runs 50 --preset paper --alpha 1,10,100,1000,10000
compare strength.h5 X.300.h5 --methods mccgr,grnmf --k 5 --runs 50 --strength 1,10,100,1000,10000
compare cai.h5 X.300.h5 --methods grnmf --k 2-10 --runs 50 --preset paper --normalize l2

# One thing changed at a time, on the half of the categories that defaults were chosen on, and on the other.
[ -e "$out/other.300.h5" ] || python "$here/halves.py" "$out/X.300.h5" "$out/chosen.300.h5" "$out/other.300.h5"
change() { # NAME OPTION...
    name=$1
    shift
    for half in chosen other; do
        compare "ablation/$name.$half.h5" "$half.300.h5" --methods mccgr --k 2,5,10 --runs 30 "$@"
    done
}
change defaults
change graph-features-plain --graph-features plain
change graph-features-weighted --graph-features weighted
change axes-0 --axes 0
change weight-binary --weight binary
change alpha-100 --alpha 100
change strength-10 --strength 10
change strength-1000 --strength 1000
change normalize-none --normalize none
change normalize-l1 --normalize l1
change normalize-l2 --normalize l2
change normalize-sqrt --normalize sqrt
change theta-1 --theta 1
change keep-0.2 --keep 0.2
change keep-0.8 --keep 0.8
change bandwidth-settle --bandwidth settle
change init-random --init random
change init-random-restarts-5 --init random --restarts 5
change init-nndsvd --init nndsvd
change tolerance-1e-5 --tolerance 1e-5
change preset-paper --preset paper
change preset-paper-normalize-sqrt --preset paper --normalize sqrt

for words in 300 1000; do
    python "$here/beside.py" "$words" "$out/defaults.$words.h5" "$out/paper.$words.h5"
    echo
    mccgr table "$out/defaults.$words.h5" --format markdown
    echo
    mccgr plot "$out/defaults.$words.h5" --figure scores -o "$out/figures/scores.$words.svg" --overwrite
done >"$out/tables.md"
mccgr table "$out/many.300.h5" --format markdown >"$out/many.md"
mccgr table "$out/alpha.h5" --format markdown >"$out/alpha.md"
mccgr table "$out/strength.h5" --format markdown >"$out/strength.md"
mccgr table "$out/cai.h5" --format markdown >"$out/cai.md"
mccgr plot "$out/defaults.1000.h5" --figure scores --only method=mccgr,grnmf,l2,k-means \
    -o "$out/figures/caltech.svg" --overwrite
mccgr factorize "$here/../sample_data/textures_noisy.h5" --k 3 -q -o - |
    mccgr plot - --figure weights -o "$out/figures/weights.svg" --overwrite
mccgr plot "$out/alpha.h5" --figure sweep -o "$out/figures/alpha.svg" --overwrite
mccgr plot "$out/strength.h5" --figure sweep -o "$out/figures/strength.svg" --overwrite
mccgr plot "$out/paper.300.h5" --figure iterations -o "$out/figures/iterations.svg" --overwrite
for method in mccgr mcc grnmf l2; do
    mccgr factorize "$out/X.300.h5" --k 10 --preset paper --method "$method" -q -o "$out/$method.h5" --overwrite
done
(cd "$out" && mccgr plot mccgr.h5 mcc.h5 grnmf.h5 l2.h5 -o figures/convergence.svg --overwrite)
python "$here/ablation.py" "$out"/ablation >"$out/ablation.md"
python "$here/judging.py" "$out/chosen.300.h5" >"$out/judging.md"
python "$here/iterations.py" "$out/paper.300.h5" "$out/paper.1000.h5" "$out/defaults.300.h5" "$out/defaults.1000.h5" \
    >"$out/iterations.md"
python "$here/robustness.py" "$data/matrices/COIL20.mat" --noise 0,0.1,0.3 >"$out/robustness.md"
python "$here/robustness.py" "$data/matrices/TDT2.mat" --draws 3 >>"$out/robustness.md"
echo "$out: tables.md, many.md, alpha.md, strength.md, cai.md, ablation.md, judging.md, iterations.md, robustness.md, figures/"
