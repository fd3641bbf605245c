"""What mccgr asks of the operating system: worker processes, signals, free memory, file locks.

Begin with ``memory`` (how much is free) or ``processes`` (work shared by several processes).
May import: ``settings``, ``fields`` and ``errors``.
"""
