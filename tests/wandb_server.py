"""A local stand-in for W&B's server: what wandb-core asks of it, answered and kept in memory.

It follows the real one in what the mirror leans on: a run is found by its id, lines of its history
are placed at the offset that the client names, the client learns how many there are, and an
artifact passes through create, manifest, upload and commit. It is not the real one in that it
checks no schema, knows a single entity, never deduplicates an artifact by its digest, and takes any
key but the refused one.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.wandb_store import WandbStore

KEY = "k" * 40
REFUSED_KEY = "r" * 40


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, as wandb-core does at its end, is no news."""


class WandbServer:
    """Serves on a free port of this host, inside a ``with``; ``deaf`` takes and never answers."""

    def __init__(self, deaf: bool = False) -> None:
        self.requests: list[str] = []
        self.last = ""
        self.released = threading.Event()
        if not deaf:
            self.released.set()
        server = self

        class Handler(_Handler):
            server_state = server

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.store = WandbStore(self.url)

    def __enter__(self) -> WandbServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()

    def deaf_after(self, operation: str) -> None:
        """Answers this GraphQL operation once more and then nothing until ``released`` is set."""
        self.last = operation

    def everything(self) -> str:
        """All that any client ever sent, as one text."""
        uploads = [data.decode("latin-1") for data in self.store.uploads.values()]
        return "\n".join([*self.requests, *uploads])


class _Handler(BaseHTTPRequestHandler):
    server_state: WandbServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.server_state.released.wait()
        self.server_state.requests.append(f"{self.path}{self.headers}")
        data = self.server_state.store.api.file(self.path)
        self._send(data or b"{}", 404 if data is None and "artifacts" in self.path else 200)

    def do_PUT(self) -> None:
        self.server_state.store.uploads[self.path] = self._body()
        self._reply({})

    def do_POST(self) -> None:
        self.server_state.released.wait()
        body = self._body().decode()
        self.server_state.requests.append(f"{self.headers}{body}")
        sent = json.loads(body)
        store = self.server_state.store
        stream = re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
        if stream is not None:
            self._reply(store.stream(stream[1], sent))
        elif REFUSED_KEY in self._key():
            self._reply({"errors": [{"message": "invalid API key"}]}, status=401)
        else:
            name = re.search(r"(?:query|mutation)\s+(\w+)", sent["query"])
            operation = name[1] if name else ""
            if operation == self.server_state.last:
                self.server_state.last = ""
                self.server_state.released.clear()
            answer = store.answer(operation, sent["query"], sent.get("variables") or {})
            self._reply({"data": answer})

    def _key(self) -> str:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        return base64.b64decode(given).decode("latin-1")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, data: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(data).encode(), status)

    def _send(self, body: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
