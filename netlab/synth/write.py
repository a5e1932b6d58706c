"""A made run as a folder of files."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from netlab.ownership import refuse_foreign, remove_own
from netlab.synth.counters import counter_csv, device_clocks_ns
from netlab.synth.fabric import cables, ports, rank_rows
from netlab.synth.kineto import BASE_TIME_NS, CAPTURE_START_NS, trace_json
from netlab.synth.nccl import log_name, nccl_log
from netlab.synth.plants import LINK_PLANTS, spec_for
from netlab.synth.simulate import Simulation, simulate
from netlab.synth.spec import Spec
from netlab.synth.truth import TRUTH_SCHEMA, Truth, truth_of

__all__ = ["TRUTH_NAME", "write_run"]

TRUTH_NAME = "truth.json"
#: From here on, packing takes longer than it saves.
_LARGE_BYTES = 4_000_000
_RANK_COLUMNS = ("rank", "host", "local_rank", "gpu_index", "nic", "nic_port", "rail")
_OWN_FILES = ("rank*.pt.trace.json.gz", "nccl/nccl.node*.log", "counters/*.csv.gz", "links.csv", "ports.csv", "netlab.toml", "ranks.csv")
#: What an operator declares: the rates that are printed on the cables, whatever they carry.
_RUN_FILE = """[run]
world_size = {ranks}
gpus_per_node = {gpus_per_node}

[links]
intra_node_gbps = {intra_node_gbps:g}
inter_node_gbps = {cable_gbps:g}
"""


def write_run(
    folder: str | Path,
    plant: str = "none",
    ranks: int = 8,
    steps: int | None = None,
    seed: int = 0,
    counters: bool | None = None,
    **overrides: Any,
) -> Truth:
    """Write a GPU training run with known truth in the file formats of real ones.

    Parameters
    ----------
    folder
        Where the files go; made if absent. The files that an earlier made run lists in its truth are replaced, others stay.
    plant
        The fault, one of ``PLANTS``.
    ranks, steps, seed
        Size of the job and seed of everything random; the same arguments give the same bytes.
    counters
        Write counters of switches and NICs, cables and ports too; left out: only for faults that show in them.
    overrides
        Further fields of ``Spec``, such as ``gpus_per_node``, ``tensor_parallel``, ``clock_skew_ns``.

    Returns
    -------
    The truth, which also stands in ``truth.json``.

    Raises
    ------
    ConfigError
        If there is no such plant or parameter, the ranks cannot be laid out, or the folder holds somebody's files of the same names.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     truth = write_run(folder, plant="straggler", ranks=4, steps=2, seed=3)
    >>> truth.cause, truth.subject["ranks"]
    ('straggler', [2])
    """
    spec = spec_for(plant, ranks=ranks, steps=steps, seed=seed, **overrides)
    counted = plant in LINK_PLANTS if counters is None else counters
    names = _names(spec, counted)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    _remove_earlier_run(target, names)
    simulation = simulate(spec)
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(_write_trace, target, simulation, rank) for rank in range(spec.ranks)]
        for job in jobs:
            job.result()
    for rank in range(spec.ranks):
        _write_whole(target / "nccl" / log_name(spec, rank), nccl_log(spec, rank).encode())
    _write_whole(target / "netlab.toml", _RUN_FILE.format(**asdict(spec)).encode())
    _write_table(target / "ranks.csv", _RANK_COLUMNS, rank_rows(spec))
    if counted:
        _write_counters(target, simulation)
    truth = msgspec.structs.replace(truth_of(simulation), files=names)
    _write_whole(target / TRUTH_NAME, msgspec.json.encode(truth))
    return truth


def _names(spec: Spec, counted: bool) -> list[str]:
    """What is written beside the truth, relative to the folder."""
    names = ["netlab.toml", "ranks.csv"]
    names += [_trace_name(rank) for rank in range(spec.ranks)]
    names += [f"nccl/{log_name(spec, rank)}" for rank in range(spec.ranks)]
    if counted:
        names += ["links.csv", "ports.csv", *(_counter_name(device) for device in _devices(spec))]
    return sorted(set(names))


def _devices(spec: Spec) -> set[str]:
    return {port.device for port in ports(spec)} & set(device_clocks_ns(spec))


def _trace_name(rank: int) -> str:
    return f"rank{rank}.pt.trace.json.gz"


def _counter_name(device: str) -> str:
    return f"counters/{device}.csv.gz"


class _Earlier(msgspec.Struct):
    """What a truth says about the files beside it."""

    schema: str
    files: list[str] = []


def _remove_earlier_run(folder: Path, names: Sequence[str]) -> None:
    """Remove the files that a truth lists, so that no rank or switch of an earlier run stays.

    Raises
    ------
    ConfigError
        If somebody's file lies where one is to be written, or, where no run was made yet, under the name of some rank, host or switch;
        nothing is removed then.
    """
    try:
        earlier = msgspec.json.decode((folder / TRUTH_NAME).read_bytes(), type=_Earlier)
    except (OSError, msgspec.MsgspecError):
        earlier = _Earlier(schema="")
    listed: set[str] = set()
    taken = list(names)
    if earlier.schema == TRUTH_SCHEMA:
        listed = {name for name in earlier.files if any(PurePosixPath(name).match(pattern) for pattern in _OWN_FILES)} | {TRUTH_NAME}
    else:
        taken += [path.relative_to(folder).as_posix() for pattern in _OWN_FILES for path in sorted(folder.glob(pattern))]
    refuse_foreign(folder, [*taken, TRUTH_NAME], listed, "synth did not make")
    remove_own(folder, [TRUTH_NAME, *sorted(listed)], listed)


def _write_trace(folder: Path, simulation: Simulation, rank: int) -> None:
    # No file name and no time in the gzip header: the same seed gives the same bytes.
    text = trace_json(simulation, rank).encode()
    packed = gzip.compress(text, compresslevel=9 if len(text) < _LARGE_BYTES else 5, mtime=0)
    _write_whole(folder / _trace_name(rank), packed)


def _write_counters(folder: Path, simulation: Simulation) -> None:
    spec = simulation.spec
    for device, text in counter_csv(simulation, BASE_TIME_NS + CAPTURE_START_NS).items():
        _write_whole(folder / _counter_name(device), gzip.compress(text.encode(), compresslevel=6, mtime=0))
    links = [(cable.a.device, cable.a.name, cable.b.device, cable.b.name, cable.a.speed_gbps) for cable in cables(spec)]
    _write_table(folder / "links.csv", ("a_device", "a_port", "b_device", "b_port", "speed_gbps"), links)
    facts = [(port.device, port.name, port.speed_gbps, port.role, port.host, port.nic) for port in ports(spec)]
    _write_table(folder / "ports.csv", ("device", "port", "speed_gbps", "role", "host", "nic"), facts)


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A small CSV; unknown cells are empty. No name here needs quotes."""
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in (header, *rows)]
    _write_whole(path, ("\n".join(lines) + "\n").encode())


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
