"""Benchmarks of speed (``python -m benchmarks``) and of quality (the scripts named in docs/REPRODUCTION.md)."""
