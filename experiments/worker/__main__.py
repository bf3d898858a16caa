"""A worker: ``python -m experiments.worker --device auto``, spoken to over its stdin and stdout."""

from __future__ import annotations

import argparse
import dataclasses
import gc
from typing import Any

from experiments.worker.channel import Channel, die_with_parent
from experiments.worker.place import take_place


def main() -> None:
    """Says where it is, then answers requests until its stdin closes."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="experiments.worker")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    channel = Channel()
    try:
        place = take_place(parser.parse_args().device)
    except RuntimeError as error:
        channel.send({"error": str(error)})
        return
    # torch and the kernels are imported only now that the interpreter is chosen
    from experiments.worker.bench import Bench
    from experiments.worker.counting.count import count
    from experiments.worker.describe import BadJob, describe
    from experiments.worker.faults import one_line
    from experiments.worker.measure import measure
    from experiments.worker.probe import probe
    from experiments.worker.profile import profile

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
        reply: dict[str, Any]
        if request["do"] in ("describe", "count"):
            try:
                if request["do"] == "describe":
                    reply = describe(request["job"], place.device)
                else:
                    reply = count(request["point"], place.device)
            except BadJob as error:
                reply = {"error": str(error)}
            except Exception as error:  # a kernel's own declarations may raise anything
                reply = {"error": f"its declarations fail: {one_line(error)}"}
        elif request["do"] == "profile":
            reply = profile(request["point"], place.torch_device)
        else:
            if bench is None:
                bench = Bench.at(place)
            if request["do"] == "probe":
                channel.send({"reply": probe(bench)})
                continue
            reply = measure(request["point"], bench, lambda s: channel.send({"stage": s}))
        channel.send({"reply": reply})


if __name__ == "__main__":
    main()
