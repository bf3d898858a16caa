"""The types of everything that is not a kernel's own tunable; conf/ holds values and comments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class Grid:
    """Shapes, named after what they reproduce: ``rows`` × ``cols``, then the pairs of ``shapes``.

    Attributes:
        source: What the grid reproduces.
        dtypes: The dtypes its source used, for ``dtype=native``.
        rows: One M, a list of them, or ``{first, last, step}``.
        cols: One N, a list, or ``{first, last, step}``.
        shapes: Further pairs ``[M, N]``.
    """

    source: str = MISSING
    dtypes: list[str] = MISSING
    rows: Any = None
    cols: Any = None
    shapes: list[list[int]] = field(default_factory=list)


@dataclass
class DType:
    """Which dtypes to run; null takes the grid's own."""

    names: list[str] | None = None


@dataclass
class Fact:
    """A card's datasheet figure and where it stands; the unit is in the fact's name."""

    value: float = MISSING
    source: str = MISSING


@dataclass
class GPU:
    """A card.

    Attributes:
        name: As people write it.
        match: A regular expression for the driver's name of it; null for ``auto`` and ``cpu``.
        device: ``cuda``, ``cpu``, or ``auto`` (CUDA where there is one).
        card: Index of the card on the host to pin, null for the launcher's own choice.
        facts: Datasheet figures by name.
    """

    name: str = MISSING
    match: str | None = None
    device: str = "cuda"
    card: int | None = None
    facts: dict[str, Fact] = field(default_factory=dict)


@dataclass
class Timing:
    """The protocol of a measurement.

    Attributes:
        timer: ``events``, ``graph``, ``host``, or ``auto`` (events on CUDA, host on a CPU).
        cache: ``cold`` (L2 flushed before each sample) or ``warm``.
        warmup: Samples taken and thrown away first.
        min_samples: Fewest samples before stopping is considered.
        max_samples: The cap.
        precision: Half-width of the 95 % interval, as a share of the median, to stop at.
        sampling_limit_s: Longest that inputs, gate and sampling of one point may take, seconds.
        compile_limit_s: Longest that compiling one point may take, seconds.
    """

    timer: str = MISSING
    cache: str = MISSING
    warmup: int = MISSING
    min_samples: int = MISSING
    max_samples: int = MISSING
    precision: float = MISSING
    sampling_limit_s: float = MISSING
    compile_limit_s: float = MISSING


@dataclass
class Tracker:
    """Where rows are mirrored. ``backend`` is ``wandb`` or ``none``, ``mode`` W&B's own word."""

    backend: str = "wandb"
    mode: str = "offline"
    project: str = "softmax-roofline"
    entity: str | None = None


@dataclass
class Experiment:
    """One job: a kernel over a grid in some dtypes on a card, and how its sweep is run.

    Attributes:
        twin: Marks the kernel's name, so that one variant can be measured under two (A/A).
        rounds: Visits to all points of the sweep.
        fresh: Whether each round begins in new worker processes.
        remeasure: Whether a suspect point is measured once more.
    """

    kernel: dict[str, Any] = MISSING
    grid: Grid = MISSING
    dtype: DType = MISSING
    gpu: GPU = MISSING
    timing: Timing = MISSING
    tracker: Tracker = MISSING
    name: str = MISSING
    out: str = MISSING
    twin: str | None = None
    rounds: int = 1
    fresh: bool = False
    seed: int = 0
    remeasure: bool = True
    overwrite: bool = False
    only_failed: bool = False
    dry_run: bool = False


def register() -> None:
    """Makes the types known to Hydra, before any composition."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Experiment)
    for group, node in (
        ("grid", Grid),
        ("dtype", DType),
        ("gpu", GPU),
        ("timing", Timing),
        ("tracker", Tracker),
    ):
        store.store(group=group, name="schema", node=node)
