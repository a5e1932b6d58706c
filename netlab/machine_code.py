"""Functions that numba compiled once and that load without it.

Importing numba and loading one of its cached functions takes most of a second; the machine code itself is there in milliseconds. So the
optimised object is kept on disk, by the processor that it was made for, and linked in by llvmlite alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["is_cached", "machine_code"]

_LOG = logging.getLogger(__name__)
_ENTRY = "netlab_entry"
_DIGEST_BYTES = 32
#: What numba's calling convention returns for a function without result: done, or done with None.
_DONE = (0, -2)
#: Engines own the memory of the code; they live as long as the process.
_ENGINES: list[Any] = []

#: Kinds of argument: a number, or an array (its address), with numba's type of the element.
_ELEMENTS = {"u8[]": "uint8", "i32[]": "int32", "i64[]": "int64", "f64[]": "float64"}


def machine_code(name: str, version: str, arguments: Sequence[str], make: Callable[[], Callable[..., None]]) -> Callable[..., None]:
    """A compiled function, from the cache on disk or made now; runs without the GIL.

    Parameters
    ----------
    name, version
        Key of the cache; the version stands for everything that the code is made of.
    arguments
        Kind of each argument: ``"i64"``, or an array ``"u8[]"``, ``"i32[]"``, ``"i64[]"``, ``"f64[]"``.
    make
        Gives the function to compile, of numbers and pointers (see ``numba.carray``), without result; imports numba.

    Returns
    -------
    A function of Python integers and C-contiguous numpy arrays.

    Raises
    ------
    ImportError
        If nothing is cached and numba cannot be loaded.
    """
    code = _read(name, version)
    if code is None:
        code = _compile(arguments, make())
        _write(name, version, code)
    return _linked(code, arguments)


def is_cached(name: str, version: str) -> bool:
    """Whether the code lies on disk; told without loading a compiler."""
    return any((folder / _file_name(name, version)).is_file() for folder in _folders())


def _folders() -> Iterator[Path]:
    """Beside the package, else in the user's cache."""
    yield Path(__file__).parent / "__pycache__"
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netlab" / "code"


@lru_cache(maxsize=1)
def _processor() -> str:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return hashlib.sha256(f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}".encode()).hexdigest()[:12]


def _file_name(name: str, version: str) -> str:
    return f"{name}-{version}-{_processor()}.object"


def _read(name: str, version: str) -> bytes | None:
    """The cached code, if what lies there is whole."""
    for folder in _folders():
        try:
            content = (folder / _file_name(name, version)).read_bytes()
        except OSError:
            continue
        code, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if hashlib.sha256(code).digest() == digest:
            return code
    return None


def _write(name: str, version: str, code: bytes) -> None:
    """Keep the code in the first folder that can be written; without one it is made anew each time."""
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(dir=folder)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(code + hashlib.sha256(code).digest())
            os.replace(draft, folder / _file_name(name, version))
        except OSError as error:
            _LOG.debug("compiled code is not kept in %s: %s", folder, error)
            continue
        return


def _compile(arguments: Sequence[str], function: Callable[..., None]) -> bytes:
    """Object code of a function for this processor, with nothing in it but what the function needs."""
    import llvmlite.binding as llvm
    from numba import cfunc, types

    kinds = [types.int64 if kind == "i64" else types.CPointer(getattr(types, _ELEMENTS[kind])) for kind in arguments]
    compiled = cfunc(types.void(*kinds), nogil=True, boundscheck=False, error_model="numpy")(function)
    module = llvm.parse_assembly(compiled._library.get_llvm_str())
    inner = module.get_function(compiled.native_name.removeprefix("cfunc."))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = "external" if value.name == inner.name else "internal"
    inner.name = _ENTRY
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True, codemodel="jitdefault"
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
    return bytes(machine.emit_object(module))


def _linked(code: bytes, arguments: Sequence[str]) -> Callable[..., None]:
    """Put object code into this process. numba's convention: results and exceptions by two pointers, then the arguments."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.add_symbol("NRT_MemInfo_call_dtor", _NEVER_ADDRESS)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    kinds = [ctypes.c_int64 if kind == "i64" else ctypes.c_void_p for kind in arguments]
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)(engine.get_function_address(_ENTRY))

    def call(*values: int | np.ndarray[Any, Any]) -> None:
        result, error = ctypes.c_void_p(), ctypes.c_void_p()
        passed = [value.ctypes.data if isinstance(value, np.ndarray) else int(value) for value in values]
        status = entry(ctypes.addressof(result), ctypes.addressof(error), *passed)
        if status not in _DONE:
            raise RuntimeError(f"Compiled code failed with status {status}; please report it with the file that was read.")

    return call


def _never(_: int | None) -> None:
    """Arrays given from outside have no owner whose count could come down to nothing."""


_NEVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_never)
_NEVER_ADDRESS = ctypes.cast(_NEVER, ctypes.c_void_p).value
