"""``python -m experiments.probe --out DIR``: proves on this card that a cold cache is cold.

Buffers smaller than L2 are read after the runner's own flush, in a rotation that no L2 holds, and
warm; and after a flush of what loads, loads that asked to stay, and such stores have left there.
``probe.jsonl`` below ``DIR`` takes every sample; ``python -m analysis selftest`` reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.data.files import validated
from experiments.data.records import PROBES, Probe, write_records
from experiments.errors import Parser, UserError, on_one_line
from experiments.sweep.cards import held
from experiments.sweep.client import Worker, WorkerDied, WorkerError

LIMIT_S = 900.0


def main() -> int:
    """Probes the card and prints each size; on a CPU it says that there is nothing."""
    parser = Parser(prog="python -m experiments.probe", description="Proves that cold is cold.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for probe.jsonl")
    out = parser.parse_args().out
    try:
        handshake, reply = asked_of_card("probe", out)
        if reply is None:
            print(f"{handshake['device']['name']}: no CUDA device, so no L2 flush to probe")
            return 0
        environment = {"environment": handshake["environment"]}
        probes = [validated(Probe, probe | environment) for probe in reply["probes"]]
        write_records(out / PROBES, probes)
    except (UserError, ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    print(*lines_of(probes), out / PROBES, sep="\n")
    return 0


def lines_of(probes: Sequence[Probe]) -> Iterator[str]:
    """The buffers that were read again and again, then what a flush left of each in L2."""
    left = {(one.bytes, one.cache, one.left): one.time_us for one in probes if one.left}
    turns = {one.bytes: one.time_us for one in probes if one.cache == "rotation"}
    for one in probes:
        if one.left is None and one.cache != "rotation":
            size = f"{one.bytes / 2**20:6g} MiB"
            yield f"{size}  {one.timer:<6}  {one.cache:<4}  {one.time_us:8.2f} µs"
    if left:
        yield f"{'left in L2':>10}      {'by':<13}  no flush  after the flush  rotation, µs"
    for size_bytes, cache, way in left:
        if cache == "warm":
            times = left[size_bytes, "warm", way], left[size_bytes, "cold", way], turns[size_bytes]
            text = "{:8.2f}  {:15.2f}  {:8.2f}".format(*times)
            yield f"{size_bytes / 2**20:6g} MiB      {way:<13}  {text}"


def asked_of_card(what: str, out: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a worker on the first card says of itself, and its answer; None without a CUDA device.

    Raises:
        UserError: it fails, in one line.
    """
    worker = Worker("auto", 0, out / "worker.log")
    with held([0]) as locks:
        worker.lock = locks.get(0)
        try:
            handshake = worker.start()
            if handshake["device"]["kind"] != "cuda":
                return handshake, None
            reply = worker.request({"do": what}, {"measuring": LIMIT_S}, "measuring")
        except (WorkerError, WorkerDied) as error:
            raise UserError(on_one_line(str(error))) from None
        finally:
            worker.stop()
            if worker.log.exists() and not worker.log.stat().st_size:
                worker.log.unlink()
    if "error" in reply:
        raise UserError(reply["error"])
    return handshake, reply


if __name__ == "__main__":
    sys.exit(main())
