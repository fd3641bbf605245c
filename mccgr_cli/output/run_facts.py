"""How the clusters in a file were made, as one flat row beside their scores."""

from __future__ import annotations

import math
from typing import Any

from mccgr_cli.core.methods import METHODS
from mccgr_cli.files.container import Contents
from mccgr_cli.output.provenance import first_input, nearest_step
from mccgr_cli.settings import BASELINES

Facts = dict[str, Any]


def run_facts(contents: Contents, name: str) -> Facts:
    """The facts of a clusters file. What does not apply or is not known is None."""
    known, history = contents.attributes, "history/objective"
    method = known.get("method", BASELINES[0] if "H" not in contents and "cluster_k" in known else None)
    has_history = history in contents and len(contents[history]) > 0
    facts = {
        "file": name,
        "matrix": first_input(contents.provenance),
        "k": known.get("k", known.get("cluster_k")),
        "method": method,
        "normalize": known.get("normalize"),
        **graph_weight(contents, method),
        "seed": known.get("seed", known.get("cluster_seed")),
        "objective": float(contents[history][-1]) if has_history else None,
        "iterations": len(contents[history]) - 1 if has_history else None,
        "seconds": float(contents["history/seconds"][-1]) if has_history else None,
        "converged": known.get("converged"),
    }
    return {key: None if isinstance(fact, float) and not math.isfinite(fact) else fact for key, fact in facts.items()}


def graph_weight(contents: Contents, method: Any) -> Facts:
    """The weight of the graph as it was given: --strength or --alpha. The other one is None; without a graph, both."""
    if not isinstance(method, str) or method not in METHODS or not METHODS[method].graph:
        return {"strength": None, "alpha": None}
    step = nearest_step(contents.provenance, "factorize") or {}
    given = step.get("parameters")
    alpha = given.get("alpha") if isinstance(given, dict) else None
    return {"strength": contents.attributes.get("strength") if alpha is None else None, "alpha": alpha}
