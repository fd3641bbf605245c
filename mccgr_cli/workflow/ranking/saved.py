"""Results of tasks as values of JSON, for the journal of a ranking. Arrays keep their exact values."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.workflow.ranking import Plan, Task, draw
from mccgr_cli.workflow.ranking.subsamples import Run

CLUSTERS, STARTS, WEIGHTS = "<i4", "<f4", "<f8"  # types of the arrays


def to_json(result: Any) -> Any:
    """A result as a value of JSON; None if it is, or holds, an error: then the task is done again."""
    if isinstance(result, dict):
        if not all(isinstance(run, Run) for run in result.values()):
            return None
        clusters = {str(k): packed(run.assignments, CLUSTERS) for k, run in result.items()}
        return {"clusters": clusters, "starts": {str(k): packed(run.signature, STARTS) for k, run in result.items()}}
    if isinstance(result, list):
        return {"errors": result}
    return {"weights": packed(result, WEIGHTS)} if isinstance(result, np.ndarray) else None


def from_json(task: Task, value: Any, shape: tuple[int, int], plan: Plan) -> Any:
    """The result of a task from its value in a journal; None if it is not there, or damaged."""
    try:
        if task.kind == "run":
            rows, _ = draw(task.number, shape[0], plan)
            return {k: run_from(value, k, rows) for k in task.ks}
        if task.kind == "weights":
            return unpacked(value["weights"], WEIGHTS, (shape[1],))
        errors = [float(error) for error in value["errors"]]
        return errors if len(errors) == len(plan.all_ks()) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def run_from(value: Any, k: int, rows: Array) -> Run:
    assignments = unpacked(value["clusters"][str(k)], CLUSTERS, (len(rows),)).astype(np.int64)
    if not (assignments.min() >= 0 and assignments.max() < k):
        raise ValueError("not a cluster")
    return Run(rows, assignments, unpacked(value["starts"][str(k)], STARTS, (len(rows), -1)))


def packed(values: Array, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


def unpacked(text: str, dtype: str, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype).reshape(shape)
