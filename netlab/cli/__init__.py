"""The command line: arguments in, exit code out. Everything heavy is imported inside the commands."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence

from netlab.errors import NetlabError

__all__ = ["main"]

#: polars' allocator keeps freed memory for ten seconds; after this many milliseconds it goes back, at no cost that could be measured.
_GIVE_MEMORY_BACK = "dirty_decay_ms:50,muzzy_decay_ms:0"
#: What the system says when a disk, or its share of it, is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code.

    Errors are one sentence on stderr: 2 for a wrong use, 3 for unreadable inputs, 4 for anything unforeseen; a traceback only with ``-v``.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", _GIVE_MEMORY_BACK)
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "-v" in words or "--verbose" in words
    logging.basicConfig(level=logging.DEBUG if verbose else logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(_run(words, verbose))


def _run(words: list[str], verbose: bool) -> int:
    import typer

    import netlab.cli.judging
    import netlab.cli.tools  # noqa: F401 -- both register their commands
    from netlab.cli.common import app

    try:
        code = app(args=words, prog_name="netlab", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except NetlabError as error:
        return _fail(str(error), error.exit_code, verbose)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted.", 130, verbose)
    except BrokenPipeError:
        return 0
    except OSError as error:
        if error.errno is None:
            return _internal(error, verbose)
        if error.errno in _FULL:
            return _fail(f"{error.filename or 'The output'}: {error.strerror}. Free some space or choose another place.", 4, verbose)
        return _fail(f"{error.filename}: {error.strerror}." if error.filename else f"{error}.", 4, verbose)
    except Exception as error:  # the border to the user: everything unforeseen becomes one sentence and exit code 4
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # a usage error; typer has moved its class between releases
            error.show()
            return int(error.exit_code)
        return _internal(error, verbose)
    return code if isinstance(code, int) else 0


def _internal(error: Exception, verbose: bool) -> int:
    return _fail(f"internal error: {type(error).__name__}: {error}; run again with -v and report what it prints.", 4, verbose)


def _fail(text: str, code: int, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exc()
    print(f"netlab: {' '.join(text.split())}", file=sys.stderr)
    return code
