"""A local stand-in for W&B's server: what wandb-core asks of it, answered and kept in memory.

It follows the real one in what the mirror leans on: a run is found by its id, lines of its history
are placed at the offset that the client names, a resumed run learns its last line, and an artifact
passes through create, manifest, upload, commit. It is not the real one in that it checks no schema,
keeps a single entity, and trusts any key but the refused one.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "k" * 40
REFUSED_KEY = "r" * 40
ENTITY = "somebody"


@dataclass
class StoredRun:
    """One run as the server knows it after all requests."""

    fields: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any] | None] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    artifacts: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        stored = json.loads(self.fields.get("config") or "{}")
        return {key: entry["value"] for key, entry in stored.items()}


class WandbServer:
    """Serves on a free port of this host between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.runs: dict[str, StoredRun] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.unknown: list[str] = []
        self.requests: list[str] = []
        server = self

        class Handler(_Handler):
            store = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> WandbServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def everything(self) -> str:
        """All that any client ever sent, as one text."""
        return "\n".join([*self.requests, *(data.decode("latin-1") for data in
                                             self.uploads.values())])

    def stream(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[name]
        for file, chunk in body.get("files", {}).items():
            content = [json.loads(line) for line in chunk["content"]] if "json" in file else []
            if file == "wandb-history.jsonl":
                end = chunk["offset"] + len(content)
                run.lines.extend([None] * (end - len(run.lines)))
                run.lines[chunk["offset"] : end] = content
            elif file == "wandb-summary.json":
                run.summary = content[-1]
        if body.get("complete"):
            run.exit_code = body["exitcode"]
        return {"exitcode": None, "limits": {}}

    def answer(self, operation: str, query: str, values: dict[str, Any]) -> dict[str, Any]:
        handler = getattr(self, f"_{operation.lower()}", None)
        if handler is None:
            self.unknown.append(f"{operation}: {query}")
            return {}
        answer: dict[str, Any] = handler(values)
        return answer

    def _viewer(self, values: dict[str, Any]) -> dict[str, Any]:
        viewer = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
        return {"viewer": {**viewer, "teams": {"edges": []}}}

    def _serverfeaturesquery(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def _runstoppedstatus(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"run": {"stopped": False}}}

    def _runresumestatus(self, values: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(values["name"])
        if run is None:
            return {"model": None}
        tail = json.dumps([json.dumps(run.lines[-1])]) if run.lines else "[]"
        bucket = {
            "id": values["name"],
            "name": values["name"],
            "summaryMetrics": json.dumps(run.summary),
            "displayName": run.fields.get("displayName"),
            "logLineCount": 0,
            "historyLineCount": len(run.lines),
            "eventsLineCount": 0,
            "historyTail": tail,
            "eventsTail": "[]",
            "config": run.fields.get("config"),
            "tags": [],
            "notes": None,
            "wandbConfig": '{"t": 1}',
        }
        return {"model": {"id": "p", "name": "p", "entity": _entity(), "bucket": bucket}}

    def _upsertbucket(self, values: dict[str, Any]) -> dict[str, Any]:
        name = values["name"]
        inserted = name not in self.runs
        run = self.runs.setdefault(name, StoredRun())
        run.fields.update({key: value for key, value in values.items() if value is not None})
        bucket = {
            "id": name,
            "name": name,
            "displayName": run.fields.get("displayName"),
            "description": None,
            "config": run.fields.get("config"),
            "sweepName": None,
            "historyLineCount": len(run.lines),
            "project": {"id": "p", "name": values["project"], "entity": _entity()},
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def _createrunfiles(self, values: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": self._upload(name)} for name in values["files"]]
        return {"createRunFiles": {"runID": values["run"], "uploadHeaders": [], "files": files}}

    def _createartifact(self, values: dict[str, Any]) -> dict[str, Any]:
        given = values["input"]
        name = f"artifact{len(self.artifacts)}"
        self.artifacts[name] = {**given, "state": "PENDING"}
        artifact = {"id": name, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def _createartifactmanifest(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"createArtifactManifest": {"artifactManifest": self._manifest(values)}}

    def _updateartifactmanifest(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"updateArtifactManifest": {"artifactManifest": self._manifest(values)}}

    def _manifest(self, values: dict[str, Any]) -> dict[str, Any]:
        file = {"id": "f", "uploadUrl": self._upload("manifest"), "uploadHeaders": []}
        return {"id": "m", "file": file}

    def _createartifactfiles(self, values: dict[str, Any]) -> dict[str, Any]:
        edges = []
        for spec in values.get("input", values)["artifactFiles"]:
            node = {"storagePath": spec["name"], "uploadUrl": self._upload(spec["name"])}
            rest = {"uploadHeaders": [], "uploadMultipartUrls": None}
            edges.append({"node": {**node, **rest, "artifact": {"id": spec["artifactID"]}}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _commitartifact(self, values: dict[str, Any]) -> dict[str, Any]:
        artifact = self.artifacts[values["artifactID"]]
        artifact["state"] = "COMMITTED"
        self.runs[artifact["runName"]].artifacts.append(artifact["artifactCollectionName"])
        given = {"id": values["artifactID"], "digest": artifact["digest"]}
        return {"commitArtifact": {"artifact": given}}

    def _upload(self, name: str) -> str:
        return f"{self.url}/upload/{len(self.requests)}/{name}"


def _entity() -> dict[str, str]:
    return {"id": "e", "name": ENTITY}


class _Handler(BaseHTTPRequestHandler):
    store: WandbServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._reply({})

    def do_PUT(self) -> None:
        self.store.uploads[self.path] = self._body()
        self._reply({})

    def do_POST(self) -> None:
        body = self._body().decode()
        self.store.requests.append(body)
        sent = json.loads(body)
        stream = re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
        if stream is not None:
            self._reply(self.store.stream(stream[1], sent))
        elif REFUSED_KEY in base64.b64decode(
            self.headers.get("Authorization", "").removeprefix("Basic ")
        ).decode("latin-1"):
            self._reply({"errors": [{"message": "invalid API key"}]}, status=401)
        else:
            name = re.search(r"(?:query|mutation)\s+(\w+)", sent["query"])
            operation = sent.get("operationName") or (name[1] if name else "")
            answer = self.store.answer(operation, sent["query"], sent.get("variables") or {})
            self._reply({"data": answer})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, data: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
