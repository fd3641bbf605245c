"""Compare the time of ``mccgr --help`` with that of ``python -c "import click"``: the best of many, and the ratio.

python -m benchmarks.startup
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import seconds


def fastest(*arguments: str) -> float:
    command = [sys.executable, *arguments]
    return min(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) for _ in range(20))


def main() -> None:
    click, mccgr = fastest("-c", "import click"), fastest("-m", "mccgr_cli", "--help")
    print(f"import click {click:.3f} s, mccgr --help {mccgr:.3f} s, ratio {mccgr / click:.2f}")


if __name__ == "__main__":
    main()
