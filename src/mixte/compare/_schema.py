"""What ``comparison.json`` holds."""

import datetime as dt
from typing import Literal

import msgspec

from mixte._version import __version__
from mixte.records import RunSummary

COMPARISON_FILE = "comparison.json"
SCHEMA_VERSION = 1


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the comparison, in the order of execution.

    Attributes:
        policy: The policy as the user named it.
        seed: The seed.
        directory: The record's directory, relative to the comparison's.
        exit_code: Exit code of its process; negative for the signal that ended it.
        duration_s: Time from start to end of the process, imports included.
        problem: Why the run does not count; None if it does.
        summary: The summary of its record; None without a readable record.
    """

    policy: str
    seed: int
    directory: str
    exit_code: int
    duration_s: float
    problem: str | None = None
    summary: RunSummary | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The paired differences of a final value, policy minus baseline.

    Attributes:
        split: The set of data: ``"train"``, ``"validation"``, ``"test"``.
        metric: Name of the metric; None for the loss.
        baseline_mean: Mean of the baseline's values over the pairs.
        differences: One difference for each pair, in the order of ``Pair.seeds``.
        mean: Their mean.
        median: Their median.
        low: Lower end of the 95 % interval of the mean; None if the pairs carry no interval.
        high: Its upper end.
    """

    split: str
    metric: str | None
    baseline_mean: float
    differences: tuple[float, ...]
    mean: float
    median: float
    low: float | None = None
    high: float | None = None


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """The paired ratios of a positive quantity, policy over baseline.

    Attributes:
        quantity: ``"step time"`` (medians of the steady steps), ``"host memory"`` or ``"device memory"``
            (peaks).
        ratios: One ratio for each pair that has it.
        mean: Their geometric mean.
        low: Lower end of the 95 % interval; None if there is none.
        high: Its upper end.
        basis: What the interval is about: ``"pairs"``, the mean over further pairs of runs; ``"steps"``, this
            single pair of runs only, by batch means; None without an interval.
    """

    quantity: Literal["step time", "host memory", "device memory"]
    ratios: tuple[float, ...]
    mean: float
    low: float | None = None
    high: float | None = None
    basis: Literal["pairs", "steps"] | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A policy against the baseline.

    Attributes:
        baseline: The first policy.
        policy: The other.
        seeds: Seeds of the pairs of which both runs finished.
        independent: Whether the seeds gave different trainings. If not, the pairs are repetitions of one, and
            the differences carry no interval.
        identical: Both policies logged the same losses to the last bit.
        differences: The differences of loss and metrics.
        ratios: The ratios of step time and memory.
    """

    baseline: str
    policy: str
    seeds: tuple[int, ...]
    independent: bool
    identical: bool
    differences: tuple[Difference, ...] = ()
    ratios: tuple[Ratio, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``comparison.json``. None means unknown.

    Attributes:
        schema_version: Version of this layout.
        mixte_version: Version of mixte that wrote it.
        script: Path of the script as typed.
        arguments: The script's own arguments.
        policies: The policies; the first is the baseline.
        seeds: The seeds planned.
        options: Options of ``mixte run`` that were the same in all runs.
        started_at: UTC.
        planned: Number of runs planned. Fewer ``runs`` mean that the comparison is unfinished.
        runs: The runs done so far.
        pairs: Every policy but the first against the first.
        warnings: What the user should know.
    """

    schema_version: int = SCHEMA_VERSION
    mixte_version: str = __version__
    script: str
    arguments: tuple[str, ...] = ()
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    options: tuple[str, ...] = ()
    started_at: dt.datetime
    planned: int
    runs: tuple[RunEntry, ...] = ()
    pairs: tuple[Pair, ...] = ()
    warnings: tuple[str, ...] = ()
