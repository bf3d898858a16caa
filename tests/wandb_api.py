"""What the stand-in of W&B's server answers to `wandb.Api`: runs listed, artifacts handed out.

A test may put words into the server's mouth: ``projects`` that it has without a run, ``manifests``
and ``served`` bytes in place of what was uploaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.wandb_store import WandbStore

PAGE = 50


class WandbApi:
    """An operation of `wandb.Api`'s is a method of its name."""

    def __init__(self, store: WandbStore) -> None:
        self.store = store
        self.projects = {"softmax-roofline"}
        self.manifests: dict[str, dict[str, Any]] = {}
        self.served: dict[str, bytes] = {}
        self.downloads: list[str] = []

    def GetDefaultEntity(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": {"id": "1", "entity": "somebody"}}

    def Runs(self, values: dict[str, Any]) -> dict[str, Any]:
        if values["project"] not in self.projects or values["entity"] != "somebody":
            return {"project": None}
        group = json.loads(values["filters"]).get("group")
        names = [n for n, r in self.store.runs.items() if group in (None, r.fields["groupName"])]
        first = int(values.get("cursor") or 0)
        page = names[first : first + PAGE]
        edges = [
            {"node": self._run(name), "cursor": str(number)}
            for number, name in enumerate(page, start=first + 1)
        ]
        more = {"endCursor": str(first + len(page)), "hasNextPage": first + PAGE < len(names)}
        runs = {"edges": edges, "pageInfo": more}
        return {"project": {"internalId": "1", "runCount": len(names), "runs": runs}}

    def _run(self, name: str) -> dict[str, Any]:
        fields = self.store.runs[name].fields
        empty = dict.fromkeys(("sweepName", "commit", "description", "notes"))
        return empty | {
            "id": name,
            "name": name,
            "displayName": fields.get("displayName"),
            "group": fields.get("groupName"),
            "jobType": fields.get("jobType"),
            "state": "finished",
            "tags": [],
            "readOnly": False,
            "createdAt": "2026-01-01T00:00:00Z",
            "heartbeatAt": "2026-01-01T00:00:00Z",
            "historyLineCount": len(self.store.runs[name].lines),
            "user": {"name": "somebody", "username": "somebody"},
            "projectId": "1",
        }

    def ArtifactMembershipByName(self, values: dict[str, Any]) -> dict[str, Any]:
        name, _, alias = values["name"].partition(":")
        versions = [
            id
            for id, artifact in self.store.artifacts.items()
            if artifact["artifactCollectionName"] == name and artifact.get("committed")
        ]
        if alias != "latest" or not versions:
            return {"project": {"artifactCollectionMembership": None}}
        place = {"id": "p", "internalId": "1", "name": values["project"]}
        project = place | {"entity": {"name": values["entity"]}}
        collection = {"__typename": "ArtifactSequence", "name": name, "project": project}
        named = {"__typename": "ArtifactAlias", "id": "a", "alias": "latest"}
        membership = {
            "__typename": "ArtifactCollectionMembership",
            "id": "m",
            "versionIndex": len(versions) - 1,
            "createdAt": "2026-01-01T00:00:00Z",
            "aliases": [named],
            "artifactCollection": collection,
            "artifact": self._artifact(versions[-1], len(versions) - 1, collection),
        }
        return {"project": {"artifactCollectionMembership": membership}}

    def _artifact(self, id: str, version: int, collection: dict[str, Any]) -> dict[str, Any]:
        stored = self.store.artifacts[id]
        unsaid = ("description", "metadata", "historyStep", "commitHash")
        return dict.fromkeys(unsaid) | {
            "__typename": "Artifact",
            "id": id,
            "artifactSequence": collection,
            "versionIndex": version,
            "artifactType": {"name": stored["artifactTypeName"]},
            "ttlDurationSeconds": -1,
            "ttlIsInherited": True,
            "tags": [],
            "state": "COMMITTED",
            "size": 1,
            "digest": stored["digest"],
            "digestAlgorithm": "MANIFEST_MD5",
            "fileCount": 1,
            "createdAt": "2026-01-01T00:00:00Z",
            "updatedAt": "2026-01-01T00:00:00Z",
            "aliases": [],
        }

    def FetchArtifactManifest(self, values: dict[str, Any]) -> dict[str, Any]:
        file = {"directUrl": f"{self.store.url}/manifest/{values['id']}"}
        return {"artifact": {"currentManifest": {"file": file}}}

    def manifest(self, id: str) -> dict[str, Any]:
        """An artifact's manifest: a test's own, else the one uploaded last."""
        uploaded: dict[str, Any] = json.loads(self.store.uploads[self.store.manifests[id]])
        return self.manifests.get(id, uploaded)

    def file(self, path: str) -> bytes | None:
        """What a GET of ``path`` gives, None where there is nothing."""
        manifest = re.fullmatch(r"/manifest/(\w+)", path)
        if manifest is not None:
            return json.dumps(self.manifest(manifest[1])).encode()
        asked = re.fullmatch(r"/artifactsV2/.*/([0-9a-f]{32})/([^/]+)", path)
        if asked is None:
            return None
        self.downloads.append(asked[2])
        by_digest = {hashlib.md5(data).hexdigest(): data for data in self.store.uploads.values()}
        return (by_digest | self.served).get(asked[1])


def digest_of(data: bytes) -> str:
    """A file's digest as a manifest writes it."""
    return base64.b64encode(hashlib.md5(data).digest()).decode()
