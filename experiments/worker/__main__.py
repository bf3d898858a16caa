"""A worker, ``python -m experiments.worker auto [prepare] SOCKET``, a child of the sweep.

Requests and answers are JSON objects, one per line of the socket.
"""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import json
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from experiments.data.errors import UserError, anonymous
from experiments.worker.machine import choose_device

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Sends its device and environment, then answers requests until the socket is closed.

    Linux kills it when its parent is gone, however the parent ended: an orphan would go on using
    the card beside the sweep that resumes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.stdout = sys.stderr  # which takes any character, and hands lines to the log at once
    _, device_asked, *prepare, descriptor = sys.argv
    parent = socket.socket(fileno=int(descriptor))
    parent.set_inheritable(False)
    requests = map(json.loads, parent.makefile("rb"))

    def send(**message: Any) -> None:
        parent.sendall(json.dumps(message).encode() + b"\n")

    try:
        machine = choose_device(device_asked)
    except RuntimeError as error:
        send(error=str(error))
        return
    # torch and the kernels are imported only now that the interpreter is chosen
    from experiments.worker.describe import describe, inspect
    from experiments.worker.measure import measure
    from experiments.worker.trial import Equipment, check_file

    gc.freeze()  # the imports' objects stay: the collector need not look at them again
    device = machine.device
    about = {"environment": machine.environment, "host_cards": machine.host_cards}
    send(device=dataclasses.asdict(device), **about)
    equipment = functools.cache(lambda: Equipment(machine))  # made on first use: it takes memory
    if prepare:
        with contextlib.suppress(Exception):  # a measured point raises it again, and gets a row
            equipment().flush()

    def announce(stage: str) -> None:
        send(stage=stage)

    def ask(path: str) -> dict[str, Any]:
        send(check=path)
        result: dict[str, Any] = next(requests)["result"]
        return result

    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "describe": lambda request: describe(request["job"], device),
        "inspect": lambda request: inspect(request["kernel"]),
        "measure": lambda request: measure(request["point"], equipment(), announce, ask),
        "check": lambda request: check_file(request["path"], equipment()),
    }
    for request in requests:
        try:
            reply = answers[request["do"]](request)
        except UserError as error:
            reply = {"error": str(error)}
        except Exception as error:  # a kernel's own declarations may raise anything
            if request["do"] == "measure":
                raise  # the worker dies of it, and another one takes the next point
            reply = {"error": f"it fails with {anonymous(error)}"}
        send(reply=reply, number=request["number"])


if __name__ == "__main__":
    main()
