"""Damaged files and odd command lines for ``mccgr``, and what it makes of them: ``python -m tests.fuzz --help``."""
