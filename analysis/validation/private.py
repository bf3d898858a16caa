"""What names a machine, its user or a secret in a line of text."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

# Numbers of a measurement and versions of packages look like what they are not.
_HARMLESS = re.compile(
    r'"samples_us":\s*\[[\d\s.,eE+-]*\]|"packages":\s*\{[^{}]*\}|"commit":\s*"[0-9a-f]{40}"'
    r'|"(?!\w*(?:serial|key|token|secret|pass))\w+":\s*(?:null|-?[\d.]+(?:e[+-]?\d+)?)(?=[,}\s])'
    r"|\b(?:kernels|experiments|hydra_plugins|tests)(?:\.\w+)+"
    r"|\bgit checkout [0-9a-f]{40}\b|>commit of this project</td><td>[0-9a-f, ]+<"  # of a report
)
_URL = re.compile(r"\b(?:https?|git|ssh|s3|gs)://[^\s\"'<>)]+")
_DOMAINS = "com|org|net|edu|gov|io|ai|de|ch|fr|uk|nl|it|es|se|fi|at|eu|jp|cn|kr|in|au|ca|br"
_INSIDE = "local|lan|internal|intranet|corp|home|cluster|localdomain"
_GPU_NODES = "node|nid|login|dgx|hgx|worker|compute|host|srv"

_KINDS = {
    "a home folder": r"/(?:home|Users)/[\w.+-]+|/root/|\b[A-Za-z]:\\+Users\\+\w+|(?<![\w~])~/\w",
    "a path": r"(?<![\w.~:/<-])(?:/[\w.+-]*[A-Za-z_][\w.+-]*){2,}|\b[A-Za-z]:\\\\?\w+",
    "a key": r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\b(?:ghp|gho|ghs|hf|sk|glpat|wandb_v1|github_pat|xox[abps])[_-][\w-]{16,}"
    r"|(?i:api_?key|secret|token|passw(?:or)?d)\"?\s*[:=]\s*[\"']?[\w+/.-]{8,}"
    r"|(?<![\w/-])[0-9a-f]{40}(?!\w)",
    "a UUID": r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
    "a serial number": r"(?i)\bserial(?:_?(?:number|no))?\"?\s*[:=]\s*[\"']?\w*\d\w+"
    r"|\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\b",
    "an address": r"(?<![\w.-])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)"
    r"(?![\w.-])|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\bfe80::\w|\b(?:[0-9a-f]{1,4}:){4,}[0-9a-f:]+"
    r"|[\w.+-]+@[A-Za-z][\w-]*(?:\.[\w-]+)*",
    "a host name": rf"(?i)\b(?:[a-z0-9-]+\.)+(?:{_INSIDE})\b|\b(?:[a-z0-9-]+\.)+(?:{_DOMAINS})\b"
    rf"|\b(?:[a-z]+[-_])?(?:{_GPU_NODES})[-_]?\d{{2,}}\b"
    r"|\b(?:host_?name|node_?(?:name|list)|SLURM\w*(?:NODE|HOST)\w*)\"?\s*[:=]\s*[\"']?[a-z]",
    "a user name": r"(?i)\b(?:user_?(?:name)?|login|author|account)\"?\s*[:=]\s*[\"']?"
    r"(?!null)[a-z]",
}
PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS.items())
# Known to anyone; a picture's metadata and a source's address name them.
PUBLIC = re.compile(
    r"(?i)\b(?:[\w-]+\.)*(?:w3|matplotlib|purl|creativecommons|pytorch|wandb|hydra|github|nvidia"
    r"|triton-lang|arxiv|python)\.(?:org|com|ai|cc)\b"
)
USUAL = {"root", "user", "ubuntu", "admin", "localhost", "runner", "docker", "jovyan", "nobody"}


def private(line: str) -> Iterator[tuple[str, str]]:
    """What a line gives away: the kind, and the text. One of a kind, the first.

    Args:
        line: Text, a row's samples and the versions of packages among it.
    """
    told = set()
    for part in _HARMLESS.sub("", line).split(","):  # rows are alike: most parts were seen before
        for kind, text in _private(part):
            if kind not in told:
                told.add(kind)
                yield kind, text


@lru_cache(maxsize=1 << 16)
def _private(part: str) -> tuple[tuple[str, str], ...]:
    keys = [url for url in _URL.findall(part) if re.search(r"://[^/]*@", url)]
    text = PUBLIC.sub("", _URL.sub("", part))
    found = [(kind, match[0]) for kind, p in (*PATTERNS, *_mine()) if (match := p.search(text))]
    kinds = {kind for kind, _ in found}
    if "a home folder" in kinds:
        found = [one for one in found if one[0] != "a path"]
    return (*(("a key", url) for url in keys), *found)


@cache
def _mine() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """This machine's own names: a contributor validates where the rows were measured."""
    known = [("a host name", socket.gethostname().split(".")[0]), ("a user name", _user()),
             ("a home folder", str(Path.home()))]  # fmt: skip
    return tuple(
        (kind, re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"))
        for kind, name in known
        if len(name) > 3 and name.lower() not in USUAL and name != "/root"
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for its user
        return ""
