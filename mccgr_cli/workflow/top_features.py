"""The features that make each component, and that set each cluster apart from the other samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.catalog import TOP_BY, TOP_OF
from mccgr_cli.core.profiles import GroupValues, Profiles
from mccgr_cli.core.typicality import below_one, cluster_means
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents

CLUSTERS, COMPONENTS = TOP_OF
SCORE, SHARE = TOP_BY


@dataclass(frozen=True)
class TopFeature:
    """A feature of a cluster or component."""

    number: int
    score: float  # p log(p / q): its part of what sets the group apart from the average sample
    times: float  # how much stronger it is than in the average sample: p / q
    share: float  # p: its part of the group, where all features together have 1
    mean: float | None = None  # of its values in the samples of the group; None if X was not given
    mean_elsewhere: float | None = None  # in all other samples
    fraction: float | None = None  # of the samples of the group: those with a value above 0
    fraction_elsewhere: float | None = None


@dataclass(frozen=True)
class Group:
    """A cluster or component with its top features, the first one first."""

    number: int  # as in the file
    size: int | None  # samples; None for a component
    features: tuple[TopFeature, ...]


def top_features(
    contents: Contents, count: int, of: str = CLUSTERS, by: str = SCORE, values: GroupValues | None = None
) -> list[Group]:
    """The top features of every cluster or component of a file.

    The strengths of the features in a cluster are those that the factors give its samples: the mean of WH. Strengths
    are multiplied by the weights of the features. Silenced features are left out.

    Parameters
    ----------
    contents
        A factors or clusters file.
    count
        Features of each group at most. There are fewer if fewer are stronger than in the average sample.
    of
        ``clusters``, or ``components`` of H.
    by
        ``score``: first the features that set the group apart from the average sample. ``share``: first the strongest
        features.
    values
        Means of X in the clusters, in the order of their numbers. Needed for clusters that were made without factors.
    """
    numbers, sizes, mixtures, profiles = groups_of(contents, of, values)
    measured = None if values is None or of == COMPONENTS else values.compared()
    found = []
    none_apart = by == SCORE and len(numbers) == 1  # a single group is the average sample, to rounding
    for place, number in enumerate(numbers):
        score, times, share = profiles.compared(mixtures[place])
        order = score if by == SCORE else share
        best = np.argsort(-order, kind="stable")[: 0 if none_apart else count]
        features = []
        for j in best[order[best] > 0].tolist():
            of_samples = [] if measured is None else measured[:, place, j].tolist()
            features.append(TopFeature(j, float(score[j]), float(times[j]), float(share[j]), *of_samples))
        found.append(Group(number, None if sizes is None else int(sizes[place]), tuple(features)))
    return found


def groups_of(
    contents: Contents, of: str, values: GroupValues | None
) -> tuple[list[int], Array | None, Array, Profiles]:
    """The numbers, sizes and mixtures (g, k) of the groups, and the profiles of all mixtures."""
    if "H" not in contents and (values is None or of == COMPONENTS):
        raise DataError("the clusters", "made without factors", "give the matrix that was clustered")
    if of == COMPONENTS:
        k = contents["H"].shape[0]
        return list(range(k)), None, np.eye(k), profiles_of(contents)
    numbers, places, sizes = np.unique(contents["assignments"], return_inverse=True, return_counts=True)
    if "H" in contents:
        return numbers.tolist(), sizes, cluster_means(below_one(contents["W"])[0], places), profiles_of(contents)
    assert values is not None  # the means of the clusters take the place of components
    profiles = Profiles(values.means, np.ones(values.means.shape[1]), sizes / sizes.sum())
    return numbers.tolist(), sizes, np.eye(len(numbers)), profiles


def profiles_of(contents: Contents) -> Profiles:
    """The profiles of mixtures of the components of a file; mixtures have the scale of W divided as by below_one."""
    return Profiles(contents["H"], contents["rho"], below_one(contents["W"])[0].mean(axis=0))
