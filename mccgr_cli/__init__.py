"""mccgr: robust clustering of non-negative matrices.

Graph regularized non-negative matrix factorization by maximizing correntropy.
"""

__version__ = "0.1.0"
