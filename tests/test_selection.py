"""Step ranges and rank lists."""

from __future__ import annotations

import pytest

from netlab.errors import ConfigError
from netlab.selection import parse_ranks, parse_steps


@pytest.mark.parametrize("text", ["", ":x", "3:1", "4:4", "-1:2", "1,2", "1:2:3"])
def test_a_range_that_holds_nothing_or_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--steps"):
        parse_steps(text)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "0 1", "-1"])
def test_a_list_that_is_no_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--ranks"):
        parse_ranks(text)


def test_a_bad_selection_is_named_by_where_it_stands() -> None:
    with pytest.raises(ConfigError, match=r"environment NETLAB_RUN_STEPS: run\.steps is 'x'"):
        parse_steps("x", "environment NETLAB_RUN_STEPS: run.steps")
