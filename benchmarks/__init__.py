"""Measurements: of speed (``python -m benchmarks``) and of quality (the scripts that docs/REPRODUCTION.md names)."""
