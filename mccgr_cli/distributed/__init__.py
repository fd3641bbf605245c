"""Work shared with a Dask cluster.

Begin with ``connection``: join a cluster, or start one on this machine. ``blocks`` lets its workers hold the rows of X,
``processes`` gives them many independent items. dask is imported nowhere else.
May import: ``files``, ``blocks``, ``system``, ``settings`` and ``errors``.
"""
