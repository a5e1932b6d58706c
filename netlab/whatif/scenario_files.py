"""Scenario files, read strictly: every wrong key or value is named with the nearest right one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from netlab.config import nearest
from netlab.errors import ScenarioError
from netlab.whatif.scenarios import KINDS, Accumulation, Change, Compression, Compute, Overlap, Scenario, Straggler, Topology

__all__ = ["load_scenarios", "parse_scenarios"]


def load_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Read a scenario file.

    Raises
    ------
    ScenarioError
        If it is no TOML or holds a wrong key, value or type; the message names the file, the scenario and the nearest right key.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); give an existing scenario file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: is no TOML ({error}); see the example in docs/whatif.md.") from error
    return parse_scenarios(document, str(path))


def parse_scenarios(document: Mapping[str, Any], source: str = "scenarios") -> tuple[Scenario, ...]:
    """Check a scenario document.

    Examples
    --------
    >>> parse_scenarios({"scenario": [{"name": "fast", "change": [{"kind": "topology", "inter_node_gbps": 800}]}]})[0].changes
    (Topology(inter_node_gbps=800.0, intra_node_gbps=None, oversubscription=None, algorithm=None, nvlink_domain=None, fabric=None, \
layout=None, rank_order=None, hosts_per_leaf=None, load_balancing=None, queue_pairs=None, pxn=None, efficiency=None),)
    >>> parse_scenarios({"scenario": [{"name": "fast", "change": [{"kind": "compresion"}]}]})
    Traceback (most recent call last):
    ...
    netlab.errors.ScenarioError: scenarios, scenario 'fast': there is no change of kind 'compresion'; did you mean 'compression'?
    """
    _known_keys(document, ["scenario"], source)
    entries = document.get("scenario", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ScenarioError(f"{source}: 'scenario' must be a list of tables; write [[scenario]].")
    if not entries:
        raise ScenarioError(f"{source}: holds no scenario; add one with [[scenario]].")
    scenarios = tuple(_scenario(entry, number, source) for number, entry in enumerate(entries, 1))
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"{source}: two scenarios are named {name!r}; give each its own name.")
    return scenarios


def _scenario(entry: Mapping[str, Any], number: int, source: str) -> Scenario:
    name = entry.get("name")
    where = f"{source}, scenario {name!r}" if isinstance(name, str) and name else f"{source}, scenario {number}"
    _known_keys(entry, ["name", "change"], where)
    if not isinstance(name, str) or not name.strip():
        raise ScenarioError(f'{where}: needs a name, such as name = "800G fabric".')
    changes = entry.get("change", [])
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise ScenarioError(f"{where}: 'change' must be a list of tables; write [[scenario.change]].")
    return Scenario(name=name, changes=tuple(_change(change, where) for change in changes))


def _change(entry: Mapping[str, Any], where: str) -> Change:
    kind = entry.get("kind")
    if not isinstance(kind, str):
        raise ScenarioError(f"{where}: a change needs a kind; known are {', '.join(KINDS)}.")
    if kind not in KINDS:
        raise ScenarioError(f"{where}: there is no change of kind {kind!r}; {nearest(kind, KINDS)}")
    struct = KINDS[kind]
    values = {key: value for key, value in entry.items() if key != "kind"}
    _known_keys(values, list(struct.__struct_fields__), f"{where}, {kind}", also=("kind",))
    _known_words(values, struct, f"{where}, {kind}")
    try:
        change: Any = msgspec.convert(values, struct, strict=True)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{where}, {kind}: {_plain(str(error))}") from error
    for holds, complaint in _CHECKS[struct](change):
        if not holds:
            raise ScenarioError(f"{where}, {kind}: {complaint}")
    return change  # type: ignore[no-any-return]


def _known_keys(entry: Mapping[str, Any], known: list[str], where: str, also: tuple[str, ...] = ()) -> None:
    for key in entry:
        if key not in known and key not in also:
            raise ScenarioError(f"{where}: there is no key {key!r}; {nearest(key, known)}")


def _known_words(entry: Mapping[str, Any], struct: type, where: str) -> None:
    for key, hint in get_type_hints(struct).items():
        words = [word for part in get_args(hint) for word in get_args(part) if isinstance(word, str)]
        value = entry.get(key)
        if words and isinstance(value, str) and str not in get_args(hint) and value not in words:
            raise ScenarioError(f"{where}: {key} is {value!r}; {nearest(value, words)}")


def _plain(message: str) -> str:
    """msgspec's ``Expected `int`, got `str` - at `$.rank` `` as a sentence with the key first."""
    text, _, place = message.partition(" - at ")
    key = place.strip("`").removeprefix("$").removeprefix(".")
    text = text.replace("`", "'")
    return f"{key}: {text[0].lower()}{text[1:]}." if key else f"{text}."


def _positive(change: msgspec.Struct, *names: str) -> list[tuple[bool, str]]:
    values = [(name, getattr(change, name)) for name in names]
    return [(value is None or value > 0, f"{name} is {value}; expected a number above 0.") for name, value in values]


def _check_compression(change: Compression) -> list[tuple[bool, str]]:
    return [
        ((change.method is None) != (change.ratio is None), "give either a method or a ratio."),
        *_positive(change, "ratio", "rank", "block"),
        (change.codec_ms is None or change.codec_ms >= 0, f"codec_ms is {change.codec_ms}; expected 0 or more."),
        (change.density is None or 0 < change.density <= 1, f"density is {change.density}; expected a share above 0 and up to 1."),
        (change.density is None or change.method == "topk", "density belongs to method topk."),
        (change.rank is None or change.method == "powersgd", "rank belongs to method powersgd."),
        (change.block is None or change.method in ("fp8", "int8"), "block belongs to methods fp8 and int8."),
    ]


def _check_overlap(change: Overlap) -> list[tuple[bool, str]]:
    given = [name for name in change.__struct_fields__ if getattr(change, name) is not None]
    return [
        (bool(given), "give bucket_mb, prefetch or bound."),
        *_positive(change, "bucket_mb"),
        (change.prefetch is None or change.prefetch >= 0, f"prefetch is {change.prefetch}; expected 0 or more."),
        (change.bound is None or len(given) == 1, "a bound stands alone; ask for bucket_mb or prefetch in a scenario of their own."),
    ]


def _check_topology(change: Topology) -> list[tuple[bool, str]]:
    given = [name for name in change.__struct_fields__ if getattr(change, name) is not None]
    order = change.rank_order
    return [
        (bool(given), f"give at least one of {', '.join(change.__struct_fields__)}."),
        *_positive(change, "inter_node_gbps", "intra_node_gbps", "nvlink_domain", "hosts_per_leaf", "queue_pairs"),
        (
            change.oversubscription is None or change.oversubscription >= 1,
            f"oversubscription is {change.oversubscription}; expected 1 or more (4 for 4:1).",
        ),
        (
            not isinstance(order, list) or sorted(order) == list(range(len(order))),
            'rank_order must name every rank from 0 on exactly once, or be "best".',
        ),
        (not isinstance(order, str) or order == "best", f'rank_order is {order!r}; give a list of ranks, or "best".'),
        (change.queue_pairs is None or change.load_balancing == "ecmp", "queue_pairs belongs to load_balancing ecmp."),
        (
            change.efficiency is None or 0 < change.efficiency[0] <= change.efficiency[1] <= 1,
            f"efficiency is {change.efficiency}; expected two shares above 0 and up to 1, the lower one first.",
        ),
    ]


def _check_straggler(change: Straggler) -> list[tuple[bool, str]]:
    return [(change.rank == "all" or change.rank >= 0, f'rank is {change.rank}; expected a rank or "all".')]


def _check_accumulation(change: Accumulation) -> list[tuple[bool, str]]:
    return [(change.micro_batches >= 1, f"micro_batches is {change.micro_batches}; expected 1 or more.")]


def _check_compute(change: Compute) -> list[tuple[bool, str]]:
    return _positive(change, "speedup")


_CHECKS: dict[type[msgspec.Struct], Callable[[Any], list[tuple[bool, str]]]] = {
    Compression: _check_compression,
    Overlap: _check_overlap,
    Topology: _check_topology,
    Straggler: _check_straggler,
    Accumulation: _check_accumulation,
    Compute: _check_compute,
}
