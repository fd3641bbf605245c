"""Recommend a k from the criteria, with reasons; see docs/RANK.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.catalog import RANK_DECIMALS as DECIMALS

ENOUGH = 0.75  # fraction of the best possible prediction that k components must reach
FIRM = 0.8  # reproducibility of the least reproducible cluster from which clusters are reliable
ROUNDING = 1e-6  # errors that differ by less are equal


@dataclass(frozen=True)
class Recommendation:
    """The recommended k, the k that each criterion alone recommends (0 if none), and the reasons."""

    k: int
    by_stability: int
    by_heldout: int  # the fewest components that predict as well as any other number
    by_silhouette: int
    bracket: tuple[int, int]  # the least and the most components that prediction allows
    firm: bool  # whether the clusters are reliable and no criterion contradicts
    reasons: str


@dataclass(frozen=True)
class Bracket:
    """The k that the held-out errors allow; all 0 if there are none."""

    least: int  # that predicts enough
    fewest: int  # that predicts as well as any other number
    most: int  # that predicts as well as any other number

    def __contains__(self, k: int) -> bool:
        return not self.most or self.least <= k <= self.most

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


def recommend(columns: Mapping[str, Array], wanted: Sequence[int]) -> Recommendation:
    """Recommend the k with the most reproducible clusters among the ``wanted`` k that prediction allows.

    Prediction alone prefers many components, stability alone few. So prediction limits the range, and stability
    chooses within it. The k is 1 if no other number predicts better.
    """

    def by_k(name: str) -> dict[int, float]:
        pairs = zip(columns["k"].tolist(), columns[name].tolist(), strict=True)
        return {k: value for k, value in pairs if value == value}  # without NaN

    bracket = allowed_by_errors(columns["k"], columns["heldout"], columns["heldout_error"])
    stable, errors, shape = by_k("reproducibility"), by_k("reproducibility_error"), by_k("silhouette")
    by_stability = most_stable(stable, errors) if stable else 0
    by_silhouette = max(shape, key=lambda k: shape[k]) if shape else 0
    if bracket.fewest == 1 and max(wanted) > 1:
        k, firm, reasons = no_structure(columns, stable)
    else:
        k, firm, reasons = choose(stable, errors, bracket, sorted(wanted))
    if k > 1:
        others = {"stability": by_stability, "held-out error": bracket.fewest, "silhouette": by_silhouette}
        each = [f"{name} {other}" for name, other in others.items() if other]
        against = [k != other for other in (by_stability, by_silhouette) if other]
        if any(other not in (0, k) for other in others.values()):
            reasons.append(f"By themselves the criteria would say: {', '.join(each)}.")
        elif len(each) > 1:
            reasons.append("All criteria agree.")
        firm = firm and not (against and all(against))  # better prediction by more components is no contradiction
    if not firm:
        reasons.insert(0, "In doubt.")
    limits = bracket.least, bracket.most
    return Recommendation(k, by_stability, bracket.fewest, by_silhouette, limits, firm, " ".join(reasons))


def choose(
    stable: Mapping[int, float], errors: Mapping[int, float], bracket: Bracket, wanted: Sequence[int]
) -> tuple[int, bool, list[str]]:
    """The k, whether it is firm, and the reasons."""
    if max(wanted) == 1:
        return 1, False, ["Only 1 was tried: try more."]
    tried = [k for k in wanted if k > 1] or list(wanted)
    allowed = [k for k in tried if k in bracket]
    if not allowed:
        k = min(tried, key=lambda one: (abs(one - (bracket.least if one < bracket.least else bracket.most)), one))
        return k, False, [f"Of the k tried, the nearest to the {bracket} components that predict hidden entries well."]
    known = {k: stable[k] for k in allowed if k in stable}
    if not known:
        k = min(allowed, key=lambda one: (abs(one - bracket.fewest), one))
        best = f"{bracket.fewest} components predict hidden entries best." if bracket.fewest else ""
        return k, False, ["Stability is unknown, because no two runs differ.", best or "Nothing was predicted."]
    k = most_stable(known, errors)
    found, reliable = (
        f"{shown(known[k], errors.get(k, np.nan))} for the least of them",
        round(known[k], DECIMALS) >= FIRM,
    )
    if len(tried) == 1:
        reasons = [f"The only k that was tried: its clusters are reproducible ({found}), and predict more than 1 does."]
    elif bracket.most:
        reasons = [f"Of the k that prediction allows ({bracket}), its clusters are the most reproducible ({found})."]
    else:
        reasons = [f"Its clusters are the most reproducible ({found}); prediction is unknown."]
    if not reliable:
        reasons.append(f"That is weak: below {FIRM:g}, some clusters depend on which samples were drawn.")
    largest, smallest = k == max(tried), k == min(tried) == bracket.fewest > 2
    if largest or smallest:
        which, rather = ("largest", "more") if largest else ("smallest", "fewer")
        reasons.append(f"It is the {which} that was tried: try {rather}.")
    return k, reliable and not (largest or smallest), reasons


def no_structure(columns: Mapping[str, Array], stable: Mapping[int, float]) -> tuple[int, bool, list[str]]:
    """1, whether that is firm, and the reasons: no k predicts clearly better."""
    ks, means, errors = (columns[name] for name in ("k", "heldout", "heldout_error"))
    known = np.flatnonzero(np.isfinite(means))
    best = min(known[1:], key=lambda row: means[row], default=known[0])
    found = (
        f"{shown(means[known[0]], errors[known[0]])} for k = 1, {shown(means[best], errors[best])} for k = {ks[best]}"
    )
    reasons = [f"No structure: no k predicts hidden entries clearly better than 1 does (held-out error {found})."]
    fooled = [k for k, value in stable.items() if round(value, DECIMALS) >= FIRM]
    if fooled:
        reasons.append(f"But {fooled[-1]} clusters are found again whichever samples are left out.")
    return 1, not fooled, reasons


def shown(value: float, error: float) -> str:
    """A value and its standard error with the digits of the table."""
    return f"{value:.{DECIMALS}f}" + (f" ± {error:.{DECIMALS}f}" if error == error else "")


def most_stable(stable: Mapping[int, float], errors: Mapping[int, float]) -> int:
    """The largest k whose reproducibility is within one standard error of the best."""
    best = max(stable, key=lambda k: (stable[k], k))
    slack = max(errors.get(best, 0.0), ROUNDING)
    return max(k for k, value in stable.items() if value >= stable[best] - slack)


def allowed_by_errors(ks: Array, means: Array, errors: Array) -> Bracket:
    """The bracket from held-out errors, and the standard errors of their differences from the least; ks[0] is 1."""
    known = np.isfinite(means)
    if not known.any():
        return Bracket(0, 0, 0)
    ks, means, errors = ks[known], means[known], errors[known]
    least = means.min()
    near = ks[means - least <= np.maximum(errors, ROUNDING)]
    enough = ks[means[0] - means >= ENOUGH * (means[0] - least)]
    return Bracket(int(min(enough.min(), near.min())), int(near.min()), int(near.max()))


def columns_of_errors(by_mask: Array) -> dict[str, Array]:
    """The mean error by k, and the standard error of its difference from the least; ``by_mask`` is (masks, ks)."""
    means = by_mask.mean(axis=0)
    gaps = by_mask - by_mask[:, [int(np.argmin(means))]]
    masks = len(by_mask)
    errors = gaps.std(axis=0, ddof=1) / np.sqrt(masks) if masks > 1 else np.zeros(len(means))
    return {"heldout": means, "heldout_error": errors}
