"""mccgr: robust clustering of non-negative matrices.

Graph regularized non-negative matrix factorization by maximizing correntropy. The command is ``mccgr``; in Python there
are :class:`MCCGR`, an estimator for scikit-learn, and :func:`factorize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mccgr_cli.api import factorize
    from mccgr_cli.core.solver import Factors, Step
    from mccgr_cli.errors import MccgrError
    from mccgr_cli.estimator import MCCGR

__version__ = "0.2.0.dev0"
__all__ = ["MCCGR", "Factors", "MccgrError", "Step", "__version__", "factorize"]

# Loaded when they are asked for: the command does without most of it until it knows what to do.
HOMES = {
    "MCCGR": "estimator",
    "Factors": "core.solver",
    "MccgrError": "errors",
    "Step": "core.solver",
    "factorize": "api",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
