"""The memory of a ranking: how many samples may be drawn, and how many processes may work at a time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from mccgr_cli.blocks.protocol import Size
from mccgr_cli.errors import MccgrError
from mccgr_cli.system.memory import format_bytes
from mccgr_cli.workflow.ranking.criteria import MOST_FEATURES, MOST_ROWS

COPIES = 3  # of the drawn samples, while the normalization is chosen
PAIR_BYTES = 14.0  # for each sample and each other one, while the consensus is computed
MASK_COPIES = 5  # of the part with hidden entries


@dataclass(frozen=True)
class Room:
    """A limit that the user gave, in bytes, for samples drawn from a matrix of this size (double precision)."""

    limit: float
    whole: Size

    def drawn(self, samples: int) -> float:
        """The bytes of this number of samples."""
        values = self.whole.values and self.whole.values * samples // self.whole.samples
        return replace(self.whole, samples=samples, values=values, itemsize=8).bytes

    def of_worker(self, samples: int) -> float:
        """The bytes that a process takes for a task."""
        part = 8 * min(samples, MOST_ROWS) * min(self.whole.features, MOST_FEATURES)
        return self.drawn(samples) + MASK_COPIES * part

    def needed(self, samples: int) -> float:
        """The most that is needed at a time, with one process for tasks."""
        X = self.drawn(samples)
        return max(COPIES * X, X / 2 + PAIR_BYTES * samples**2, X / 2 + self.of_worker(samples))

    def check(self, samples: int, instead: str = "") -> None:
        """An error if this number of samples does not fit; ``instead``: what to do where it cannot be changed."""
        if self.needed(samples) > self.limit:
            most = bisect_right(range(samples), self.limit, key=self.needed) - 1
            what = f"{samples} samples of {self.whole.features} features take {format_bytes(self.needed(samples))}"
            fewer = instead or (f"give --samples {most}" if most > 1 else "")
            remedy = f"{fewer}, or more --memory" if fewer else "give more --memory"
            raise MccgrError(f"--memory {format_bytes(self.limit)}", what, remedy)

    def jobs(self, samples: int, wanted: int) -> int:
        """The number of processes that fit, at most ``wanted``."""
        return min(wanted, max(1, int((self.limit - self.drawn(samples) / 2) / self.of_worker(samples))))
