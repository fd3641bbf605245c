"""How the numbers of top features are written: the same in ``mccgr top`` and on the page."""

from __future__ import annotations

NUMBERS = {"score": "{:.4f}", "times": "x {:.3g}", "share": "{:.2%}"}
MEASURED = {"mean": "{:.4g}", "mean_elsewhere": "{:.4g}", "fraction": "{:.0%}", "fraction_elsewhere": "{:.0%}"}
