"""Which way is taken, what it imports, and that compiled code is never needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from netlab.readers.kineto import backends, compiled, reader, shared
from netlab.readers.kineto.backends import choose_backend
from netlab.readers.kineto.overlap import BatchThread
from tests.readers.kineto.support import kernel, trace

_SCRIPT = """
import sys
from pathlib import Path
from netlab.readers.kineto import read_frames
frames, _ = read_frames(Path(sys.argv[1]))
assert frames["device_events"].height == 1
print(*(name for name in ("numba", "llvmlite", "pyarrow", "pandas", "zstandard") if name in sys.modules))
"""


def test_a_small_file_loads_no_compiler(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(trace(kernel()))
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_large_files_are_read_with_compiled_code() -> None:
    assert choose_backend(None).name == "compiled"


def test_many_small_files_are_worth_loading_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "netlab.readers.kineto.compiled")
    monkeypatch.setattr(backends._Amount, "read_bytes", 0)
    monkeypatch.setattr(shared, "is_compiled", lambda: False)
    assert [choose_backend(10 << 20).name for _ in range(6)] == ["strict"] * 6
    monkeypatch.setattr(shared, "is_compiled", lambda: True)
    monkeypatch.setattr(backends._Amount, "read_bytes", 0)
    assert [choose_backend(1 << 20).name for _ in range(3)] == ["strict"] * 3
    assert choose_backend(1 << 20).name == "compiled"


def test_compiled_code_is_found_by_what_it_was_made_of() -> None:
    assert len(shared.version()) == 12
    compiled.CompiledBackend()
    assert shared.is_compiled()


def test_compiled_code_is_loaded_without_numba(tmp_path: Path) -> None:
    compiled.CompiledBackend()
    script = (
        "import sys; from netlab.readers.kineto.backends import choose_backend; print(choose_backend(None).name, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["compiled", "False"]


def test_without_numba_large_files_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "netlab.readers.kineto.compiled", None)
    assert choose_backend(None).name == "strict"
    assert "numba cannot be loaded" in caplog.text


def test_a_failure_while_writing_reaches_the_reader() -> None:
    def fail(_batch: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), BatchThread(fail) as thread:
        thread(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("head", "name", "claimed"),
    [
        (b'{"schemaVersion": 1, "deviceProperties": [', "a.json", True),
        (b'\xef\xbb\xbf {"x": 1, "traceEvents": [', "a.json", True),
        (b'[{"ph": "X", "name": "a"', "a.json", True),
        (b'{"schemaVer', "rank0.pt.trace.json.gz", True),
        (b'{"schemaVersion": 2, "mediaType": "x"}', "a.json", False),
        (b'{"status": "success", "data": {"resultType": "matrix"}}', "a.json", False),
        (b'{"version": "2.5", "entries": [], "pg_config": {}}', "a.json", False),
        (b'[{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 1}', "a.txt", False),
        (b'"traceEvents": [', "a.json", False),
        (b"", "rank0.pt.trace.json", False),
        (b"trace of things", "rank0.pt.trace.json", False),
    ],
)
def test_what_is_claimed(head: bytes, name: str, claimed: bool) -> None:
    assert reader.KinetoReader().sniff(head, Path(name)) is claimed
