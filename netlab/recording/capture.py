"""``netlab.capture``: record a training loop as a run directory that netlab reads."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from netlab.errors import ConfigError, RunError
from netlab.recording.environment import flight_environment, nccl_environment, set_defaults
from netlab.recording.facts import RankFacts, rank_facts, write_ports, write_rank_row, write_run_file
from netlab.recording.sampler import CounterSampler, find_counters, find_speeds

__all__ = ["Capture", "capture"]

_LOG = logging.getLogger("netlab")


def capture(
    folder: str | Path,
    *,
    name: str | None = None,
    wait: int = 1,
    warmup: int = 2,
    active: int = 4,
    cycles: int = 1,
    sync_events: bool = True,
    record_shapes: bool = True,
    with_stack: bool = False,
    nccl_log: bool = True,
    flight_recorder: bool = True,
    counters_ms: float | None = None,
) -> Capture:
    """Record a training loop: profiler traces with step marks, NCCL logs, flight recorder, facts, and counters of the host.

    Call it before ``init_process_group``: NCCL and the flight recorder read their settings only once. Enter it around the loop and call
    ``step()`` at the end of every iteration. A part that fails is logged once and left out; training goes on.

    Parameters
    ----------
    folder
        Run directory; made if absent. All ranks may share it: every file carries its rank or host in the name.
    name
        Name of the run in reports; the folder's name if left out.
    wait, warmup, active, cycles
        Schedule of the profiler in steps: skip, warm up, record, and how often. 0 cycles = until the loop ends.
    sync_events
        Record CUDA synchronisation events, from which what-if answers take real dependencies (where this torch has them).
    record_shapes, with_stack
        As in ``torch.profiler.profile``. Shapes are needed for message sizes on Gloo; stacks make traces ten times larger.
    nccl_log, flight_recorder
        Set ``NCCL_DEBUG_FILE`` and PyTorch's flight recorder. Variables that are set already are left alone.
    counters_ms
        Sample the host's network counters at this interval (10 to 100 is sensible) on local rank 0; None = not at all.

    Raises
    ------
    RunError
        If PyTorch is not installed.
    ConfigError
        If a number is out of range.

    Examples
    --------
    >>> with netlab.capture("run") as cap:                       # doctest: +SKIP
    ...     for batch in loader:
    ...         train(batch)
    ...         cap.step()
    """
    for label, value, lowest in (("wait", wait, 0), ("warmup", warmup, 0), ("active", active, 1), ("cycles", cycles, 0)):
        if value < lowest:
            raise ConfigError(f"netlab.capture: {label} is {value}; expected at least {lowest}.")
    if counters_ms is not None and not counters_ms >= 1:
        raise ConfigError(f"netlab.capture: counters_ms is {counters_ms}; expected at least 1, or None.")
    profile = {"record_shapes": record_shapes, "with_stack": with_stack}
    schedule = {"wait": wait, "warmup": warmup, "active": active, "repeat": cycles}
    recording = Capture(
        _import_torch(),
        Path(folder),
        name=name or Path(folder).resolve().name,
        schedule=schedule,
        profile=profile,
        sync_events=sync_events,
        counters_ms=counters_ms,
        flight_recorder=flight_recorder,
    )
    recording.prepare(nccl_log=nccl_log)
    return recording


def _import_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise RunError("netlab.capture records PyTorch, which is not installed here; run: pip install 'netlab[torch]'.") from error


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Keep the profiler's remarks about our own settings from the user. Not safe across threads, so only where it changes state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


class Capture:
    """A recording; made by ``capture``. ``step()`` marks the end of an iteration, ``traces`` lists the trace files of this rank."""

    def __init__(
        self,
        torch: Any,
        folder: Path,
        *,
        name: str,
        schedule: dict[str, int],
        profile: dict[str, bool],
        sync_events: bool,
        counters_ms: float | None,
        flight_recorder: bool,
    ) -> None:
        self.folder = folder
        self.name = name
        self.traces: list[Path] = []
        #: What went wrong, by part; empty when everything was recorded.
        self.failures: dict[str, str] = {}
        self._torch = torch
        self._schedule, self._profile, self._sync_events = schedule, profile, sync_events
        self._counters_ms, self._flight_recorder = counters_ms, flight_recorder
        self._profiler: Any = None
        self._sampler: CounterSampler | None = None
        self._known: RankFacts | None = None
        self._stopped = False

    def prepare(self, *, nccl_log: bool) -> None:
        """Set the environment of NCCL and the flight recorder, and say if it is too late for that."""
        with self._part("environment"):
            folder = self.folder.absolute()
            wanted: dict[str, str] = {}
            if nccl_log:
                (folder / "nccl").mkdir(parents=True, exist_ok=True)
                wanted |= nccl_environment(folder)
            if self._flight_recorder:
                (folder / "flight").mkdir(parents=True, exist_ok=True)
                wanted |= flight_environment(folder, self._torch)
            for variable, value in set_defaults(wanted, os.environ).items():
                _LOG.info("netlab.capture: %s is already %s and stays so.", variable, value)
            distributed = self._torch.distributed
            if wanted and distributed.is_available() and distributed.is_initialized():
                self._say("environment", "called after init_process_group: NCCL logs and flight recorder may be missing; call it before.")

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Begin to record; for loops that somebody else owns. ``with`` calls it."""
        with self._part("facts"):
            self._facts()
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._part("counters"):
            self._start_sampler()
        with self._part("profiler"), _no_warnings():
            self._profiler = self._make_profiler()
            self._profiler.start()

    def step(self) -> None:
        """Mark the end of an iteration. Call it once per iteration, on every rank."""
        if self._profiler is None or "profiler" in self.failures:
            return
        with self._part("profiler"):
            changes = self._profiler.schedule(self._profiler.step_num + 1) != self._profiler.current_action
            with _no_warnings() if changes else nullcontext():
                self._profiler.step()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the recording and write what is left; a second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        with self._part("profiler"):
            if self._profiler is not None and "profiler" not in self.failures:
                with _no_warnings():
                    self._profiler.stop()
        with self._part("counters"):
            if self._sampler is not None:
                self._sampler.stop()
        with self._part("facts"):
            facts = self._facts()
            write_rank_row(self.folder / "ranks" / f"rank{facts.rank}.csv", facts)
            if facts.rank == 0:
                write_run_file(self.folder / "netlab.toml", self.name, facts)
        with self._part("flight recorder"):
            if self._flight_recorder:
                self._dump_flight()
        if not self.traces and "profiler" not in self.failures:
            needed = self._schedule["wait"] + self._schedule["warmup"] + 1
            self._say("profiler", f"no trace was written; the loop must call step() at least {needed} times.")

    def _facts(self) -> RankFacts:
        """Facts of this process; what the process group said is kept, for the loop may destroy it before the recording ends."""
        distributed = self._torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self._known = rank_facts(self._torch)
        return self._known or rank_facts(self._torch)

    def _make_profiler(self) -> Any:
        profiler = self._torch.profiler
        # A CUDA build without a GPU still offers CUDA, and complains when it is asked for.
        absent = set() if self._torch.cuda.is_available() else {profiler.ProfilerActivity.CUDA}
        kinds = set(profiler.supported_activities()) - absent
        options: dict[str, Any] = dict(self._profile)
        experimental = self._experimental_config()
        if experimental is not None:
            options["experimental_config"] = experimental
        return profiler.profile(
            activities=kinds,
            schedule=profiler.schedule(**self._schedule),
            on_trace_ready=self._save_trace,
            **options,
        )

    def _experimental_config(self) -> Any:
        """Sync events, and no Python event objects that nobody reads; options of a torch that lacks them are left out."""
        config = getattr(self._torch._C._profiler, "_ExperimentalConfig", None)
        if config is None:
            return None
        known = config.__init__.__doc__ or ""
        wanted = {"enable_cuda_sync_events": self._sync_events, "trace_only": True}
        return config(**{option: value for option, value in wanted.items() if f"{option}:" in known})

    def _save_trace(self, profiler: Any) -> None:
        """Write a finished cycle; the file appears whole or not at all."""
        with self._part("trace"):
            target = self.folder / "traces" / f"rank{self._facts().rank}.cycle{len(self.traces)}.pt.trace.json.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.part.gz")
            try:
                profiler.export_chrome_trace(str(draft))
                os.replace(draft, target)
            finally:
                draft.unlink(missing_ok=True)
            self.traces.append(target)

    def _start_sampler(self) -> None:
        if self._counters_ms is None or self._facts().local_rank != 0:
            return
        counters = find_counters()
        if not counters:
            self._say("counters", "this host shows no network interface below /sys/class/net; no counters are recorded.")
            return
        host = self._facts().host
        write_ports(self.folder / "counters" / f"ports.{host}.csv", host, find_speeds())
        self._sampler = CounterSampler(self.folder / "counters" / f"{host}.csv", host, self._counters_ms / 1000, counters)
        self._sampler.start()

    def _dump_flight(self) -> None:
        """Write the flight recorder's entries as PyTorch itself would on a timeout; a run without NCCL or with an older torch has none."""
        module = getattr(self._torch._C, "_distributed_c10d", None)
        backend = self._torch.distributed.get_backend() if module is not None and self._torch.distributed.is_initialized() else None
        dump = getattr(module, "_dump_nccl_trace" if backend == "nccl" else "_dump_fr_trace", None)
        if dump is None:
            return
        # Bound C++ functions have no signature for inspect; their docstring begins with it. Stacks would hold paths of the user's code.
        content = dump(includeStackTraces=False) if "includeStackTraces" in (dump.__doc__ or "") else dump()
        target = self.folder / "flight" / f"nccl_trace_rank_{self._facts().rank}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    @contextmanager
    def _part(self, part: str) -> Iterator[None]:
        """Run one part of the recording; whatever goes wrong in it, training goes on."""
        try:
            yield
        except Exception as error:  # The one place where any error is swallowed: a recorder must never end the job it records.
            self._say(part, f"failed ({type(error).__name__}: {error}) and is left out; training goes on.")

    def _say(self, part: str, message: str) -> None:
        """Log a part's trouble once. Not through ``warnings``: under ``-W error`` that would end the training."""
        if part not in self.failures:
            self.failures[part] = message
            _LOG.warning("netlab.capture: %s: %s", part, message)
