"""Configuration: layers, origins, exact thresholds, and errors that name the nearest key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from netlab.config import load_settings
from netlab.errors import ConfigError


def _toml(folder: Path, text: str, name: str = "netlab.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_each_layer_overrides_the_one_before_and_is_named_as_origin(tmp_path: Path) -> None:
    _toml(tmp_path, "[limits]\nnetwork_share = 0.3\nlink_peak = 0.9\n[run]\nname = 'a'\n")
    over = _toml(tmp_path, "[limits]\nnetwork_share = 0.4\n", "over.toml")
    settings = load_settings([tmp_path], over, {"NETLAB_RUN_NAME": "b", "HOME": "/"}, {"limits.network_share": 0.05, "run.steps": None})
    assert settings.config.threshold == Fraction(1, 20)
    assert settings.config.run.name == "b"
    assert settings.config.limits.link_peak == 0.9
    assert settings.origins["limits.network_share"] == "flag"
    assert settings.origins["run.name"] == "environment NETLAB_RUN_NAME"
    assert settings.origins["limits.link_peak"].endswith("netlab.toml")
    assert settings.origins["links.inter_node_gbps"] == "default"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nnetwork_share_treshold = 0.3\n", ["network_share_treshold", "'network_share'"]),
        ("[limit]\nnetwork_share = 0.3\n", ["[limit]", "'limits'"]),
        ("[limits]\nnetwork_share = '0.3'\n", ["limits.network_share", "'0.3'", "a number"]),
        ("[limits]\nnetwork_share = 25\n", ["limits.network_share", "0 to 1"]),
        ("[limits]\nnetwork_share = true\n", ["limits.network_share", "True"]),
        ("[limits]\nlink_mean = [0.8, 0.6]\n", ["limits.link_mean"]),
        ("[run]\nworld_size = 2.5\n", ["run.world_size", "whole number"]),
        ("[links]\ninter_node_gbps = -1\n", ["links.inter_node_gbps"]),
        ('[files]\n"a.csv" = { tiezone = "UTC" }\n', ["tiezone", "'timezone'"]),
        ("[[classify]]\npattern = 'x'\n", ["classify", "op"]),
        ("[limits\n", ["no TOML"]),
    ],
)
def test_a_wrong_file_is_an_error_that_names_place_and_remedy(tmp_path: Path, text: str, words: list[str]) -> None:
    _toml(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings([tmp_path])
    assert [word for word in words if word not in str(caught.value)] == []


def test_an_unknown_environment_variable_is_a_warning() -> None:
    settings = load_settings(environment={"NETLAB_LIMITS_NETWORK_SHAR": "0.3"})
    assert settings.config.threshold == Fraction(1, 4)
    assert "NETLAB_LIMITS_NETWORK_SHARE" in settings.warnings[0]


def test_a_threshold_is_the_decimal_that_was_written(tmp_path: Path) -> None:
    _toml(tmp_path, "[limits]\nnetwork_share = 0.25000625\n")
    assert load_settings([tmp_path]).config.threshold == Fraction(25000625, 100000000)
