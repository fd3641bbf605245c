"""Which k the criteria speak for, and why; see docs/RANK.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array

ENOUGH = 0.75  # of what can be predicted at all, that k components must predict
FIRM = 0.8  # how reproducible the least reproducible cluster is of clusters that are to be relied on
ROUNDING = 1e-6  # below which errors are the same


@dataclass(frozen=True)
class Recommendation:
    """A number of components, what each criterion by itself would say (0: nothing), and why."""

    k: int
    by_stability: int
    by_heldout: int  # the fewest components that predict as well as any number
    by_silhouette: int
    bracket: tuple[int, int]  # the least and the most components that prediction allows
    firm: bool  # whether the clusters can be relied on, and no criterion speaks against it
    reasons: str


@dataclass(frozen=True)
class Bracket:
    """What held-out errors say; all 0 where nothing is known."""

    least: int  # that predict enough
    fewest: int  # that predict as well as any number
    most: int  # that do

    def __contains__(self, k: int) -> bool:
        return not self.most or self.least <= k <= self.most

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


def recommend(columns: Mapping[str, Array], wanted: Sequence[int]) -> Recommendation:
    """Of the ``wanted`` k that prediction allows, the one whose clusters are most reproducible; 1 if nothing is found.

    Prediction by itself likes many components, stability by itself few: the one says where the other may look.
    """
    ks = columns["k"].tolist()
    bracket = bracketed(columns["k"], columns["heldout"], columns["heldout_error"])
    stable = {k: value for k, value in zip(ks, columns["reproducibility"].tolist(), strict=True) if value == value}
    doubt = dict(zip(ks, columns["reproducibility_error"].tolist(), strict=True))
    shape = {k: value for k, value in zip(ks, columns["silhouette"].tolist(), strict=True) if value == value}
    by_stability = most_stable(stable, doubt) if stable else 0
    by_silhouette = max(shape, key=lambda k: shape[k]) if shape else 0
    k, firm, reasons = choose(stable, doubt, bracket, sorted(wanted))
    if k > 1:
        others = {"stability": by_stability, "held-out error": bracket.fewest, "silhouette": by_silhouette}
        each = [f"{name} {other}" for name, other in others.items() if other]
        against = [k != other for other in (by_stability, by_silhouette) if other]
        if any(other not in (0, k) for other in others.values()):
            reasons.append(f"By themselves the criteria would say: {', '.join(each)}.")
        elif len(each) > 1:
            reasons.append("All criteria agree.")
        firm = firm and not (against and all(against))  # that more components predict better is no objection
    limits = bracket.least, bracket.most
    return Recommendation(k, by_stability, bracket.fewest, by_silhouette, limits, firm, " ".join(reasons))


def choose(
    stable: Mapping[int, float], doubt: Mapping[int, float], bracket: Bracket, wanted: Sequence[int]
) -> tuple[int, bool, list[str]]:
    """The k, whether it can be relied on, and why."""
    if max(wanted) == 1:
        return 1, False, ["Nothing but 1 was tried: try more."]
    if bracket.fewest == 1:
        fooled = [k for k, value in stable.items() if value >= FIRM]
        but = f" Yet {fooled[-1]} clusters come out alike whatever samples are left out." if fooled else ""
        return 1, not fooled, [f"No structure: no k predicts hidden entries better than 1 does.{but}"]
    tried = [k for k in wanted if k > 1] or list(wanted)
    allowed = [k for k in tried if k in bracket]
    if not allowed:
        k = min(tried, key=lambda one: (abs(one - (bracket.least if one < bracket.least else bracket.most)), one))
        return k, False, [f"The nearest that was tried to the {bracket} components that predict hidden entries well."]
    known = {k: stable[k] for k in allowed if k in stable}
    if not known:
        k = min(allowed, key=lambda one: (abs(one - bracket.fewest), one))
        return k, False, ["Nothing is known of stability, as no two runs differ.", predicted(bracket)]
    k = most_stable(known, doubt)
    found = f"{known[k]:.2f} for the least of them"
    if len(tried) == 1:
        reasons = [f"The only k that was tried: its clusters are reproducible ({found}), and predict more than 1 does."]
    elif bracket.most:
        reasons = [f"Of the k that prediction allows ({bracket}), its clusters are the most reproducible ({found})."]
    else:
        reasons = [f"Its clusters are the most reproducible ({found}); nothing is known of prediction."]
    if known[k] < FIRM:
        reasons.append(f"That is weak: below {FIRM:g}, some clusters depend on the samples that were drawn.")
    at_end = True
    if k == max(tried):
        reasons.append("It is the largest that was tried: try more.")
    elif k == min(tried) == bracket.fewest > 2:
        reasons.append("It is the smallest that was tried: try fewer.")
    else:
        at_end = False
    return k, known[k] >= FIRM and not at_end, reasons


def predicted(bracket: Bracket) -> str:
    return f"{bracket.fewest} components predict hidden entries best." if bracket.fewest else "Nothing was predicted."


def most_stable(stable: Mapping[int, float], doubt: Mapping[int, float]) -> int:
    """The largest k that is as reproducible as the most reproducible, within the standard error of that."""
    best = max(stable, key=lambda k: (stable[k], k))
    slack = max(doubt[best], ROUNDING) if doubt[best] == doubt[best] else ROUNDING
    return max(k for k, value in stable.items() if value >= stable[best] - slack)


def bracketed(ks: Array, errors: Array, doubts: Array) -> Bracket:
    """``doubts`` are the standard errors of the differences from the least error; the first of ks is 1."""
    known = np.isfinite(errors)
    if not known.any():
        return Bracket(0, 0, 0)
    ks, errors, doubts = ks[known], errors[known], doubts[known]
    least = errors.min()
    near = ks[errors - least <= np.maximum(doubts, ROUNDING)]
    enough = ks[errors[0] - errors >= ENOUGH * (errors[0] - least)]
    return Bracket(int(min(enough.min(), near.min())), int(near.min()), int(near.max()))


def columns_of_errors(by_mask: Array) -> dict[str, Any]:
    """The mean error by k, and the standard error of its difference from the least; ``by_mask`` is (masks, ks)."""
    means = by_mask.mean(axis=0)
    gaps = by_mask - by_mask[:, [int(np.argmin(means))]]
    masks = len(by_mask)
    doubts = gaps.std(axis=0, ddof=1) / np.sqrt(masks) if masks > 1 else np.zeros(len(means))
    return {"heldout": means, "heldout_error": doubts}
