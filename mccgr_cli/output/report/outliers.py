"""The section on outliers: the least typical samples of all clusters."""

from __future__ import annotations

from typing import Any

from mccgr_cli.output.report.clusters import Findings, most_isolated


def outliers_section(findings: Findings) -> list[dict[str, Any]] | None:
    """The most isolated samples, the most isolated first; None if the file does not say how isolated they are."""
    outlier, certainty = findings.outlier, findings.certainty
    if outlier is None:
        return None
    return [
        {
            "place": int(findings.places[sample]),
            "name": findings.name(sample),
            "cluster": findings.clusters[findings.cluster_places[sample]],
            "score": score_text(float(outlier[sample])),
            "certainty": None if certainty is None else f"{certainty[sample]:.2f}",
        }
        for sample in most_isolated(outlier).tolist()
    ]


def score_text(score: float) -> str:
    """
    >>> score_text(2.414), score_text(3e9)
    ('2.41', '3e+09')
    """
    return f"{score:.2f}" if score < 10_000 else f"{score:.3g}"
