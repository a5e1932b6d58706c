"""Configuration of an analysis: defaults < netlab.toml < --config < environment < flags. Every value knows where it comes from."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from netlab.errors import ConfigError
from netlab.units import parse_share

__all__ = ["ClassifyRule", "Config", "FileOptions", "Limits", "Links", "RunOptions", "Settings", "load_settings", "nearest"]

_PREFIX = "NETLAB_"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``[run]``: what the inputs may not say about the job."""

    name: str | None = None
    cluster: str | None = None
    world_size: int | None = None
    gpus_per_node: int | None = None
    price_per_gpu_hour: float | None = None
    steps: str | None = None
    ranks: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """``[limits]``: thresholds. Shares from 0 to 1."""

    network_share: float = 0.25
    link_mean: tuple[float, float] = (0.60, 0.80)
    link_peak: float = 0.95


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """``[links]``: declared one-direction rates per GPU."""

    intra_node_gbps: float | None = None
    inter_node_gbps: float | None = None


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``[files] "path" = {...}``: what the content of one file cannot tell."""

    rank: int | None = None
    device: str | None = None
    timezone: str | None = None
    clock_offset_s: float | None = None


class ClassifyRule(msgspec.Struct, frozen=True, kw_only=True):
    """``[[classify]]``: one more pattern of communication kernels."""

    pattern: str
    op: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    run: RunOptions = RunOptions()
    limits: Limits = Limits()
    links: Links = Links()
    files: dict[str, FileOptions] = {}
    classify: list[ClassifyRule] = []

    @property
    def threshold(self) -> Fraction:
        """The limit of the network share, exactly as its decimal text says."""
        return Fraction(repr(self.limits.network_share))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with the origin of each value (``limits.network_share`` to ``netlab.toml``) and warnings about ignored ones."""

    config: Config
    origins: dict[str, str]
    warnings: list[str] = []


_TABLES: dict[str, type[msgspec.Struct]] = {"run": RunOptions, "limits": Limits, "links": Links}


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the nearest known word, or the list of known words.

    >>> nearest("network_shar", ["network_share", "link_peak"])
    "did you mean 'network_share'?"
    """
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}."


def load_settings(
    beside: Iterable[Path] = (),
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Put the layers of configuration together.

    Parameters
    ----------
    beside
        Folders that may hold a ``netlab.toml``; the first one found counts.
    config_file
        ``--config``.
    environment
        Variables; those beginning with ``NETLAB_`` count.
    flags
        Dotted names to values, for example ``{"limits.network_share": 0.3}``; None means not given.

    Raises
    ------
    ConfigError
        Unknown key (with the nearest known one), wrong type, or a value out of range; names the file or variable.

    Examples
    --------
    >>> load_settings(flags={"limits.network_share": 0.3}).config.threshold
    Fraction(3, 10)
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    found = next((folder / "netlab.toml" for folder in beside if (folder / "netlab.toml").is_file()), None)
    for path in (found, config_file):
        if path is not None:
            _merge(merged, origins, _read_toml(path), str(path))
    for name, text in sorted((environment or {}).items()):
        if name.startswith(_PREFIX):
            _merge_variable(merged, origins, warnings, name, text)
    for dotted, value in (flags or {}).items():
        if value is not None:
            table, key = dotted.split(".")
            merged.setdefault(table, {})[key] = value
            origins[dotted] = "flag"
    config = _convert(merged, origins)
    for table, kind in _TABLES.items():
        for key in kind.__struct_fields__:
            origins.setdefault(f"{table}.{key}", "default")
    return Settings(config=config, origins=origins, warnings=warnings)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give the path of a readable TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}.") from error


def _merge(merged: dict[str, Any], origins: dict[str, str], document: dict[str, Any], origin: str) -> None:
    known = Config.__struct_fields__
    for table, content in document.items():
        if table not in known:
            raise ConfigError(f"{origin}: unknown table [{table}]; {nearest(table, known)}")
        if table == "classify":
            merged.setdefault("classify", []).extend(content if isinstance(content, list) else [content])
            origins["classify"] = origin
            continue
        if not isinstance(content, dict):
            raise ConfigError(f"{origin}: {table} is {content!r}; expected a table [{table}].")
        if table in _TABLES:
            for key in content:
                fields = _TABLES[table].__struct_fields__
                if key not in fields:
                    raise ConfigError(f"{origin}: unknown key {key!r} in [{table}]; {nearest(key, fields)}")
        else:
            for name, options in content.items():
                for key in options if isinstance(options, dict) else ():
                    if key not in FileOptions.__struct_fields__:
                        hint = nearest(key, FileOptions.__struct_fields__)
                        raise ConfigError(f"{origin}: unknown key {key!r} for {name!r} in [files]; {hint}")
        merged.setdefault(table, {}).update(content)
        origins.update({f"{table}.{key}": origin for key in content})


def _merge_variable(merged: dict[str, Any], origins: dict[str, str], warnings: list[str], name: str, text: str) -> None:
    names = {f"{_PREFIX}{table}_{key}".upper(): (table, key) for table, kind in _TABLES.items() for key in kind.__struct_fields__}
    if name not in names:
        warnings.append(f"The environment variable {name} is not known and was ignored; {nearest(name, names)}")
        return
    table, key = names[name]
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if key in ("name", "steps", "ranks"):
        value = text
    merged.setdefault(table, {})[key] = value
    origins[f"{table}.{key}"] = f"environment {name}"


def _convert(merged: dict[str, Any], origins: Mapping[str, str]) -> Config:
    """Typed configuration; every value is checked on its own so that a message can name it."""
    parts: dict[str, Any] = {}
    for table, kind in _TABLES.items():
        values = {}
        for key, field in zip(kind.__struct_fields__, msgspec.structs.fields(kind), strict=True):
            if key in merged.get(table, {}):
                raw = merged[table][key]
                values[key] = _value(raw, field.type, f"{origins[f'{table}.{key}']}: {table}.{key}")
        parts[table] = kind(**values)
    files = merged.get("files", {}).items()
    parts["files"] = {name: _value(options, FileOptions, f"{origins[f'files.{name}']}: files.{name!r}") for name, options in files}
    parts["classify"] = _value(merged.get("classify", []), list[ClassifyRule], f"{origins.get('classify', '')}: [[classify]]")
    config = Config(**parts)
    _check_ranges(config, origins)
    return config


def _value(raw: Any, kind: Any, name: str) -> Any:
    if isinstance(raw, bool):
        raise ConfigError(f"{name} is {raw!r}; expected {_expected(kind)}.")
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name} is {raw!r}; expected {_expected(kind)} ({error}).") from error


def _expected(kind: Any) -> str:
    text = str(kind)
    if "tuple" in text:
        return "two numbers in brackets"
    for word, meaning in (("float", "a number"), ("int", "a whole number"), ("str", "text")):
        if word in text:
            return meaning
    return "a table"


def _check_ranges(config: Config, origins: Mapping[str, str]) -> None:
    def fail(dotted: str, value: object, expected: str) -> None:
        raise ConfigError(f"{origins[dotted]}: {dotted} is {value!r}; expected {expected}.")

    limits, links, run = config.limits, config.links, config.run
    if "limits.network_share" in origins:
        parse_share(repr(limits.network_share), f"{origins['limits.network_share']}: limits.network_share")
    if not 0 <= limits.link_mean[0] <= limits.link_mean[1] <= 1:
        fail("limits.link_mean", list(limits.link_mean), "two shares from 0 to 1, the lower one first")
    if not 0 < limits.link_peak <= 1:
        fail("limits.link_peak", limits.link_peak, "a share above 0 and up to 1")
    for key in ("intra_node_gbps", "inter_node_gbps"):
        rate = getattr(links, key)
        if rate is not None and not 0 < rate < float("inf"):
            fail(f"links.{key}", rate, "a rate above 0 in Gbit/s")
    for key in ("world_size", "gpus_per_node"):
        count = getattr(run, key)
        if count is not None and count < 1:
            fail(f"run.{key}", count, "a whole number of at least 1")
    if run.price_per_gpu_hour is not None and not 0 <= run.price_per_gpu_hour < float("inf"):
        fail("run.price_per_gpu_hour", run.price_per_gpu_hour, "a price of at least 0")
