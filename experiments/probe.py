"""``python -m experiments.probe --out DIR``: proves on this card that a cold cache is cold.

Buffers smaller than L2 are read after the runner's own flush, in a rotation that no L2 holds, and
warm. ``probe.jsonl`` below ``DIR`` takes every sample; ``python -m analysis selftest`` reads it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from experiments.data.records import PROBES as PROBES
from experiments.data.records import Probe, write_records
from experiments.errors import Parser, UserError, on_one_line
from experiments.sweep.cards import held
from experiments.sweep.client import Worker, WorkerDied, WorkerError

LIMIT_S = {"probing": 900.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Probes the card; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return run(options.out, options.card)
    except (UserError, WorkerError, WorkerDied, OSError) as error:
        print(f"error: {on_one_line(str(error))}", file=sys.stderr)
        return 2


def run(out: Path, card: int = 0) -> int:
    """Writes ``out/probe.jsonl`` and prints each size; on a CPU it says that there is nothing.

    Raises:
        UserError: the probe failed; nothing was recorded.
    """
    worker = Worker("cuda" if card else "auto", card, out / "worker.log")
    with held([card]) as locks:
        worker.lock = locks.get(card)
        try:
            handshake = worker.start()
            if handshake["device"]["kind"] != "cuda":
                print(f"{handshake['device']['name']}: no CUDA device, so no L2 flush to probe")
                return 0
            reply = worker.request({"do": "probe"}, LIMIT_S, "probing")
        finally:
            worker.stop()
            if worker.log.exists() and not worker.log.stat().st_size:
                worker.log.unlink()
    if "error" in reply:
        raise UserError(f"the probe failed: {reply['error']}")
    try:
        probes = [Probe(**probe, environment=handshake["environment"]) for probe in reply["probes"]]
    except ValidationError as error:
        raise UserError(f"the probe's answer is no record: {error.errors()[0]['msg']}") from None
    write_records(out / PROBES, probes)
    for one in probes:
        print(f"{one.bytes / 2**20:6g} MiB  {one.timer:<6}  {one.cache:<4}  {one.time_us:8.2f} µs")
    print(out / PROBES)
    return 0


def _card(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no card's index; use 0, 1, …")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m experiments.probe", description="Proves that cold is cold.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for probe.jsonl")
    parser.add_argument("--card", type=_card, default=0, metavar="N", help="index of the card")
    return parser


if __name__ == "__main__":
    sys.exit(main())
