"""Pickles of strangers. Dumps hold nothing but numbers, text, lists and dicts, so every global is refused: nothing can run."""

from __future__ import annotations

import io
import pickle
import pickletools
import re

from netlab.errors import ParseError

__all__ = ["LIMIT_BYTES", "calls_by_name", "load_plain", "reaches_out"]

_FUNCTION = re.compile(r"[A-Za-z_][\w.]* [A-Za-z_][\w.]*")

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


#: Opcodes that keep an object by a number; the table grows to the largest one.
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
#: Entries hold lists of lists, and frames of text: four levels.
_MOST_LEVELS = 32


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


def calls_by_name(head: bytes) -> bool:
    """Whether bytes that may be a pickle of protocol 0 or 1, which has no mark of its own, name a function and call it.

    Text may look like the opcodes of such a pickle; a module and a name alone on their lines are asked for, and a call behind them.

    >>> calls_by_name(b"(S'x'\\nios\\nsystem\\n."), calls_by_name(b"(info\\nof a job\\nR"), calls_by_name(b"cat a\\nb\\nR")
    (True, False, False)
    """
    named = False
    try:
        for opcode, argument, _ in pickletools.genops(head):
            if opcode.name in ("GLOBAL", "INST"):
                if _FUNCTION.fullmatch(str(argument)) is None:
                    return False
                named = True
            if opcode.name == "INST" or (named and opcode.name in ("REDUCE", "OBJ", "BUILD")):
                return named
    except (ValueError, IndexError, UnicodeDecodeError):
        return False
    return False


def _check_extent(plain: object, most: int) -> None:
    """Few bytes may stand for billions of objects, each list holding one other many times, or for endless nesting."""
    level, levels, count = [plain], 0, 0
    while level:
        levels += 1
        below: list[object] = []
        for held in level:
            values = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple, set, frozenset)) else ()
            count += len(values)
            below += [value for value in values if isinstance(value, (dict, list, tuple, set, frozenset))]
            if count > most:
                raise ValueError("more objects than its size allows")
        if levels > _MOST_LEVELS:
            raise ValueError(f"nested deeper than {_MOST_LEVELS} levels")
        level = below


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
            if opcode.name in _PUTS and (not isinstance(argument, int) or argument > len(data)):
                raise ValueError("a place in the memo beyond what the file can fill")
        plain = _PlainUnpickler(io.BytesIO(data)).load()
        _check_extent(plain, 4 * len(data) + 1000)
        return plain
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
