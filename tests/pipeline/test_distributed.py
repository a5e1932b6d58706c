"""Reading files on a cluster: worker processes on loopback, one of them killed in the middle, and the same store as without them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netlab.errors import RunError
from netlab.pipeline.distributed import ingest_on_scheduler
from netlab.pipeline.ingest import ingest_files, parse_file
from netlab.pipeline.inputs import find_inputs
from netlab.synth import write_run

dask = pytest.importorskip("dask", reason="needs the dask extra: pip install 'netlab[dask]'")
distributed = pytest.importorskip("distributed", reason="needs the dask extra: pip install 'netlab[dask]'")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_run(folder, plant="straggler", ranks=4, steps=3, seed=5)
    return folder


@contextmanager
def cluster(workers: int = 2, **options: Any) -> Iterator[Any]:
    loopback = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=workers, **loopback, **options) as running:
        yield running


def contents(store: Path) -> dict[str, bytes]:
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def test_a_cluster_that_loses_a_worker_gives_the_same_store(made: Path, tmp_path: Path) -> None:
    files = find_inputs([made])
    killed: list[int] = []
    with cluster() as running:

        def kill_a_worker(done: int, total: int, _: str) -> None:
            if done == 1:
                assert total == len(files)
                killed.append(next(iter(running.workers.values())).process.process.pid)
                os.kill(killed[0], signal.SIGKILL)

        accounts = ingest_on_scheduler(files, tmp_path / "cluster", running.scheduler_address, kill_a_worker)
    assert killed
    assert accounts == ingest_files(files, tmp_path / "here")
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


def test_the_tls_settings_of_dask_are_honoured(made: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    end = {"key": str(key), "cert": str(certificate)}
    settings = {f"distributed.comm.tls.{role}": end for role in ("client", "scheduler", "worker")}
    files = find_inputs([made])[:2]
    with dask.config.set({**settings, "distributed.comm.tls.ca-file": str(certificate)}):
        security = distributed.Security(require_encryption=True)
        with cluster(1, protocol="tls", security=security, processes=False) as running:
            address = running.scheduler_address
            assert address.startswith("tls://")
            accounts = ingest_on_scheduler(files, tmp_path / "cluster", address)
    assert accounts == ingest_files(files, tmp_path / "here")


def test_no_scheduler_is_one_clear_sentence(made: Path, tmp_path: Path) -> None:
    short = dask.config.set({"distributed.comm.timeouts.connect": "200ms"})
    with short, pytest.raises(RunError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 .*start one"):
        ingest_on_scheduler(find_inputs([made]), tmp_path, "tcp://127.0.0.1:9")


def test_workers_on_another_disk_are_told(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netlab.pipeline.distributed.parse_file", lambda file, root: parse_file(file, root / "elsewhere"))
    with (
        cluster(1, protocol="tcp", processes=False) as running,
        pytest.raises(RunError, match="give --store a folder that all workers share"),
    ):
        ingest_on_scheduler(find_inputs([made]), tmp_path / "store", running.scheduler_address)
