"""``python -m experiments.probe --out DIR``: proves on this card that a cold cache is cold.

Buffers smaller than L2 are read after the runner's own flush, in a rotation that no L2 holds, and
warm; and after a flush of what loads, loads that asked to stay, and such stores have left there.
``probe.jsonl`` below ``DIR`` takes every sample; ``python -m analysis selftest`` reads it.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from experiments.data.files import validated
from experiments.data.records import PROBES, Probe, write_records
from experiments.errors import Parser, UserError, command
from experiments.sweep.cards import WorkerPool, take
from experiments.sweep.client import WorkerDied

LIMIT_S = 900.0


def main() -> int:
    """Probes the first card; on a CPU there is nothing to probe, and a line says so."""
    parser = Parser(prog="python -m experiments.probe", description="Proves that cold is cold.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for probe.jsonl")
    out = parser.parse_args().out
    return command(lambda: probe(out))


def probe(out: Path) -> None:
    """Writes the records of the first card.

    Raises:
        UserError: the worker fails.
    """
    with take([0]), contextlib.closing(WorkerPool(out / "worker.log", [0])) as pool:
        worker = pool.worker("auto", 0)
        handshake = worker.start()
        if handshake["device"]["kind"] != "cuda":
            print(f"{handshake['device']['name']}: no CUDA device, so no L2 flush to probe")
            return
        try:
            reply = worker.request({"do": "probe"}, {"measuring": LIMIT_S}, "measuring")
        except WorkerDied as error:
            raise UserError(str(error)) from None
    if "error" in reply:
        raise UserError(reply["error"])
    environment = {"environment": handshake["environment"]}
    write_records(out / PROBES, [validated(Probe, one | environment) for one in reply["probes"]])
    print(out / PROBES)


if __name__ == "__main__":
    sys.exit(main())
