"""Slurm's topology.conf and topology.yaml: which host hangs on which leaf, without ports."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.fabric.cables import text_of
from netlab.schema.counters import SWITCH_MEMBERS

__all__ = ["SlurmTopologyConf", "SlurmTopologyYaml", "expand_hostlist"]

_MOST_HOSTS = 1_000_000


def expand_hostlist(text: str) -> list[str]:
    """Names of a Slurm hostlist expression.

    >>> expand_hostlist("leaf[08-10],spine1")
    ['leaf08', 'leaf09', 'leaf10', 'spine1']

    Raises
    ------
    ParseError
        If a bracket is not closed, or the list has more than a million names.
    """
    found: list[str] = []
    for part in _split(text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        if "[" in part.replace("".join(f"[{piece}]" for piece in pieces[1::2]), "") and len(pieces) == 1:
            raise ParseError(f"MALFORMED_HOSTLIST: {part!r} has an open bracket.")
        choices = [[piece] if index % 2 == 0 else list(_ranges(piece)) for index, piece in enumerate(pieces)]
        size = 1
        for choice in choices:
            size *= len(choice)
        if size + len(found) > _MOST_HOSTS:
            raise ParseError(f"MALFORMED_HOSTLIST: {part!r} names more than {_MOST_HOSTS:,} hosts.")
        found += ["".join(names) for names in itertools.product(*choices)]
    return found


def _split(text: str) -> Iterator[str]:
    """Parts at commas outside brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part


def _ranges(text: str) -> Iterator[str]:
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ParseError(f"MALFORMED_HOSTLIST: {piece!r} is no number or range.")
        if dash and int(last) - int(first) > _MOST_HOSTS:
            raise ParseError(f"MALFORMED_HOSTLIST: {piece!r} names more than {_MOST_HOSTS:,} hosts.")
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1))


Rows = list[dict[str, str]]


def _parsed(name: str, rows: Rows, sink: Sink, source: str, issues: tuple[Issue, ...] = ()) -> Parsed:
    if not rows:
        raise ParseError(f"NO_SERIES: {source} names no switch with members.")
    sink.write("switch_members", SWITCH_MEMBERS.conform(pl.DataFrame(rows), source=source))
    return Parsed(reader=name, rows=len(rows), issues=issues)


class SlurmTopologyConf:
    """``SwitchName=leaf1 Nodes=h[0-9]`` and ``SwitchName=root Switches=leaf[1-2]``."""

    name = "slurm_topology_conf"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A line of a switch with members."""
        return re.search(rb"(?im)^SwitchName=\S+.*\b(?:Nodes|Switches)=", head) is not None

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """All switches.

        Raises
        ------
        ParseError
            If there is none, or a hostlist is broken.
        """
        rows: Rows = []
        text = re.sub(r"\\\n", " ", text_of(path))
        for line in text.splitlines():
            fields = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S+)", line.split("#")[0])}
            for switch in expand_hostlist(fields.get("switchname", "")):
                for key, kind in (("nodes", "host"), ("switches", "switch")):
                    rows += [{"switch": switch, "member": member, "kind": kind} for member in expand_hostlist(fields.get(key, ""))]
        return _parsed(self.name, rows, sink, source)


class SlurmTopologyYaml:
    """A list of topologies; the tree (or block) of the default one is used."""

    name = "slurm_topology_yaml"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its keys."""
        return (
            re.search(rb"(?m)^\s*-?\s*topology:", head) is not None
            and re.search(rb"(?m)^\s*(?:tree|block|flat|ring|torus3d):", head) is not None
        )

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Switches of the default topology, or of the first with a tree.

        Raises
        ------
        ParseError
            If it is no YAML, or has neither tree nor blocks.
        """
        try:
            document = yaml.safe_load(text_of(path))
        except yaml.YAMLError as error:
            raise ParseError(f"MALFORMED_YAML: {source} is no YAML ({str(error).splitlines()[0]}).") from error
        topologies = [item for item in document if isinstance(item, dict)] if isinstance(document, list) else []
        usable = [item for item in topologies if isinstance(item.get("tree"), dict) or isinstance(item.get("block"), dict)]
        chosen = next((item for item in usable if item.get("cluster_default")), usable[0] if usable else {})
        issues: tuple[Issue, ...] = ()
        if len(usable) > 1:
            message = f"{source} holds {len(topologies)} topologies; {chosen.get('topology')!r} was used."
            issues = (Issue(code="SEVERAL_TOPOLOGIES", severity="info", source=source, message=message),)
        return _parsed(self.name, _members(chosen), sink, source, issues)


def _named(items: object, key: str) -> list[dict[str, Any]]:
    """Entries of a list that have a name; a cut file may hold others."""
    return [item for item in items if isinstance(item, dict) and key in item] if isinstance(items, list) else []


def _members(topology: dict[str, Any]) -> Rows:
    rows: Rows = []
    for item in _named((topology.get("tree") or {}).get("switches"), "switch"):
        for key, kind in (("nodes", "host"), ("children", "switch")):
            rows += [{"switch": str(item["switch"]), "member": name, "kind": kind} for name in expand_hostlist(str(item.get(key) or ""))]
    for item in _named((topology.get("block") or {}).get("blocks"), "block"):
        rows += [{"switch": str(item["block"]), "member": name, "kind": "host"} for name in expand_hostlist(str(item.get("nodes") or ""))]
    return rows
