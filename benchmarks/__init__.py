"""Benchmarks of speed (``python -m benchmarks``) and of quality (``python -m benchmarks suite``, and the scripts that
docs/REPRODUCTION.md names).
"""
