"""The command line: ``python -m experiments.counters experiment=counters out=DIR``.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes what the counters of its launches come to into ``counters.jsonl`` below ``out``, in place of
what that file held of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.data.files import RowsError
from experiments.data.records import Counters, Record, read_records, write_records
from experiments.errors import UserError
from experiments.profile.ncu import (
    Launch,
    find_ncu,
    read_launches,
    remarks,
    run_ncu,
    summed,
    version,
)
from experiments.profile.profiling import LIST, Profiled

FILE = "counters.jsonl"


def main() -> None:
    """Collects, and turns errors into one line and an exit status."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    try:
        sys.exit(collect(arguments))
    except (UserError, RowsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; nothing was recorded", file=sys.stderr)
        sys.exit(130)


def collect(arguments: Sequence[str]) -> int:
    """Profiles what the arguments ask for and records it.

    Returns:
        0 when every supported point that launches kernels has a record, else another status.

    Raises:
        UserError: ncu is missing, forbidden, or failed; nothing was recorded.
    """
    ncu = find_ncu()
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("out=")]
    out = Path(given[-1] if given else "outputs/counters")
    out.mkdir(parents=True, exist_ok=True)
    points, log = out / LIST, out / "ncu.csv"
    points.unlink(missing_ok=True)  # of an earlier run
    command = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(ncu, command, log)
    wrong = remarks(text)
    if not points.exists():
        if not wrong:
            return status  # a dry run, or the command itself has printed what is wrong
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    profiled = list(read_records(points, Profiled))
    launches = list(read_launches(text))
    if wrong and not launches:
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    records = list(counters_of(profiled, launches, version(ncu)))
    _merge(out / FILE, records)
    print(_account(profiled, records, out / FILE))
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or any(point.status == "failed" for point in profiled) else 0


def counters_of(
    profiled: Iterable[Profiled], launches: Sequence[Launch], ncu: str | None
) -> Iterator[Counters]:
    """A record for every point with launches; a line is printed for those without.

    Args:
        profiled: The points, with the range each was called in.
        launches: As ncu saw them.
        ncu: Its version, for the record's environment.
    """
    shared = set(Record.model_fields) | {"gpu", "model_reads", "model_writes"}
    for point in profiled:
        mine = [launch for launch in launches if launch.range == point.range]
        if point.status != "profiled":
            continue
        if not mine:
            print(f"{point.range}: ncu saw no kernel, as of a copy by the driver; no record")
            continue
        try:
            fields = summed(mine)
        except UserError as error:
            print(f"{point.range}: {error}; no record")
            continue
        environment = {**point.environment, "ncu": ncu, "cache_control": "all"}
        yield Counters(**point.model_dump(include=shared), environment=environment, **fields)


def _merge(path: Path, records: Sequence[Counters]) -> None:
    kept = (
        {_place(record): record for record in read_records(path, Counters)} if path.exists() else {}
    )
    write_records(path, (kept | {_place(record): record for record in records}).values())


def _place(record: Counters) -> tuple[str, str, int, int, str]:
    return record.gpu, record.kernel, record.rows, record.cols, record.dtype


def _account(profiled: Sequence[Profiled], records: Sequence[Counters], path: Path) -> str:
    unsupported = sum(point.status == "unsupported" for point in profiled)
    failed = sum(point.status == "failed" for point in profiled)
    without = len(profiled) - len(records) - unsupported - failed
    return (
        f"{len(profiled)} points: {len(records)} recorded, {without} without kernels, "
        f"{unsupported} unsupported, {failed} failed -> {path}"
    )


if __name__ == "__main__":
    main()
