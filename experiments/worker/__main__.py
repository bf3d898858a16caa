"""A worker: ``python -m experiments.worker --device auto``, a `Child` of the sweep."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
from typing import Any

from experiments.child import Channel, die_with_parent, one_line
from experiments.worker.place import take_place


def main() -> None:
    """Says where it is, then answers requests until there can be no more."""
    die_with_parent()
    channel = Channel()
    sys.stdout = sys.stderr  # in the log at once, in any characters
    parser = argparse.ArgumentParser(prog="experiments.worker")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    try:
        place = take_place(parser.parse_args().device)
    except RuntimeError as error:
        channel.send({"error": str(error)})
        return
    # torch and the kernels are imported only now that the interpreter is chosen
    from experiments.worker.counting import count
    from experiments.worker.describe import BadJob, describe
    from experiments.worker.measure import Bench, measure, profile
    from experiments.worker.probe import probe

    bench: Bench | None = None
    gc.freeze()  # what the imports left is there to stay, and need not be walked again
    channel.send(
        {
            "device": dataclasses.asdict(place.device),
            "environment": place.environment,
            "serial": place.serial,
        }
    )
    for request in channel:
        if bench is None and request["do"] in ("measure", "probe"):
            bench = Bench.at(place)
        reply: dict[str, Any]
        match request:
            case {"do": "describe" | "count" as what, **more}:
                try:
                    if what == "describe":
                        reply = describe(more["job"], place.device)
                    else:
                        reply = count(more["point"], place.device)
                except BadJob as error:
                    reply = {"error": str(error)}
                except Exception as error:  # a kernel's own declarations may raise anything
                    reply = {"error": f"its declarations fail: {one_line(error)}"}
            case {"do": "profile", "point": point}:
                reply = profile(point, place.torch_device)
            case {"do": "probe"}:
                assert bench is not None
                reply = probe(bench)
            case {"do": "measure", "point": point}:
                assert bench is not None
                reply = measure(point, bench, lambda stage: channel.send({"stage": stage}))
        channel.send({"reply": reply, "number": request["number"]})


if __name__ == "__main__":
    main()
