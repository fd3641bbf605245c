"""Work on a Dask cluster.

Begin with ``connection``: connect to a cluster, or start one on this machine. ``blocks`` lets its workers hold the rows
of X, ``processes`` gives them independent items. Dask is imported nowhere else.
May import: ``files``, ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``.
"""
