"""Pickles of strangers. Dumps hold nothing but numbers, text, lists and dicts, so every global is refused: nothing can run."""

from __future__ import annotations

import io
import pickle
import pickletools

from netlab.errors import ParseError

__all__ = ["LIMIT_BYTES", "load_plain", "reaches_out"]

#: A dump of the default 2000 entries with stacks is below 10 MB; PyTorch's ring can be made larger.
LIMIT_BYTES = 256 << 20
#: Opcodes that reach for a name, call something, or build an object. None of them occurs in a dump.
_REFUSED = frozenset(
    (
        "GLOBAL",
        "STACK_GLOBAL",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "REDUCE",
        "BUILD",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
        "NEXT_BUFFER",
    )
)


class _RefusedError(Exception):
    """A pickle asked for something that plain data never need."""


class _PlainUnpickler(pickle.Unpickler):
    """Loads plain data only."""

    def find_class(self, module_name: str, global_name: str, /) -> object:
        """Refuse every name."""
        raise _RefusedError(f"{module_name}.{global_name}")

    def persistent_load(self, pid: object, /) -> object:
        """Refuse every reference to the outside."""
        raise _RefusedError("a persistent object")


def reaches_out(head: bytes) -> bool:
    """Whether the beginning of a pickle asks for a name, a call or an object."""
    try:
        return any(opcode.name in _REFUSED for opcode, _, _ in pickletools.genops(head))
    except (ValueError, IndexError, UnicodeDecodeError):
        return False


def load_plain(data: bytes, source: str) -> object:
    """The plain data of a pickle.

    The opcodes are looked through before anything is loaded, and the unpickler refuses every name as well: neither alone has to be right.

    Raises
    ------
    ParseError
        ``UNSAFE_PICKLE`` if the pickle would import or call anything; ``TRUNCATED_PICKLE`` if it ends early or is damaged.
    """
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _REFUSED:
                name = f" ({str(argument)[:80]!r})" if argument is not None else ""
                raise _RefusedError(f"opcode {opcode.name}{name}")
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _RefusedError as error:
        raise ParseError(
            f"UNSAFE_PICKLE: {source} would run code when loaded ({error}); it was refused and nothing was run. Dumps hold plain data only."
        ) from None
    # Damaged opcodes make the pickle modules raise almost any of the built-in errors; nothing of netlab runs in here.
    except (
        pickle.UnpicklingError,
        ValueError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        RecursionError,
    ) as error:
        reason = str(error) or type(error).__name__
        raise ParseError(f"TRUNCATED_PICKLE: {source} is cut off or damaged ({reason}); take the dump again.") from None
