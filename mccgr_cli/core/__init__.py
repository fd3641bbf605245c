"""The numerical method: X ~ WH with a loss, a neighbour graph and an update.

Begin with ``solver``: start, iterate, stop. ``methods`` has the losses and updates, ``starts`` the starting points,
``graph`` and ``neighbours`` the neighbour graph, ``parts`` its division into clusters, ``kmeans`` and ``metrics`` the
clusters and their scores, ``landmarks`` the clusters of new samples, ``typicality`` and ``outliers`` how well samples
fit.
May import: ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``. Reads no files and prints nothing.
"""
