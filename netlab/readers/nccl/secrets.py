"""Credentials are masked before anything is kept: logs print environment variables and URLs as they are."""

from __future__ import annotations

import re

__all__ = ["MASK", "mask_text", "mask_value"]

MASK = "***"

#: NCCL_IB_PKEY is a partition key and TOKENIZERS_PARALLELISM no token; every other name with one of these words is taken for a secret.
_SECRET_NAME = re.compile(
    r"TOKEN(?!I[SZ])|SECRET|PASSWD|PASSWORD|PASSPHRASE|CREDENTIAL|(?:API|ACCESS|PRIVATE|ACCOUNT|SIGNING)_?KEY"
    r"|(?:^|_)(?:PASS|PWD|KEY|AUTH|COOKIE)(?:_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}|glpat-[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?<=[Bb]earer )[\w.~+/=-]{8,}"
)
#: Without one of these in it a text holds no secret; most texts of a log hold none, and a search is cheaper than two substitutions.
_SUSPECT = (
    "token", "secret", "pass", "pwd", "key", "credential", "auth", "cookie", "akia", "asia", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat", "hf_", "sk-", "xox", "glpat", "eyj", "://", "bearer",
)  # fmt: skip
_NAME = re.compile(r"\b([A-Za-z][A-Za-z0-9_]{2,})( set by environment to | set to | set by env to |=|: ?)")
#: What follows "set to" is the value up to the end of the line, blanks included.
_VALUE, _REST = re.compile(r"\"[^\"]*\"|'[^']*'|\S+"), re.compile(r".+")


def mask_value(name: str, value: str) -> str:
    """The value of a variable, masked if its name or its form says that it is a credential.

    >>> mask_value("PGPASSWORD", "abc"), mask_value("NCCL_IB_PKEY", "1"), mask_value("X", "hf_abcdefghijklmnopqrstuv")
    ('***', '1', '***')
    """
    return MASK if _SECRET_NAME.search(name) else _SECRET_VALUE.sub(MASK, value)


def mask_text(text: str) -> str:
    """A line with every assignment to a secret name, and every value of a secret form, masked.

    >>> mask_text("WANDB_API_KEY set by environment to 0123abcd"), mask_text("OPTIONS set to a=1,TOKEN=abc")
    ('WANDB_API_KEY set by environment to ***', 'OPTIONS set to a=1,TOKEN=***')
    """
    small = text.lower()
    if not any(word in small for word in _SUSPECT):
        return text
    kept, at = [], 0
    for found in _NAME.finditer(text):
        if found.start() < at or not _SECRET_NAME.search(found[1]):
            continue
        value = (_REST if found[2].startswith(" ") else _VALUE).match(text, found.end())
        if value is not None:
            kept += [text[at : found.end()], MASK]
            at = value.end()
    return _SECRET_VALUE.sub(MASK, "".join([*kept, text[at:]]))
