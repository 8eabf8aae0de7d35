"""Settings from TOML: what is impossible is refused by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmill.engine.config import ConfigError, load_config


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[llm]\ntimeout_s = nan\n", "llm.timeout_s must be above 0 and finite, got nan"),
        ("[llm]\ntimeout_s = inf\n", "llm.timeout_s must be above 0 and finite, got inf"),
        ("[cluster]\nresolution = nan\n", "cluster.resolution must be above 0 and finite, got nan"),
        ('[extract]\nlanguage = ""\n', "extract.language must be auto, an ISO 639-1 code"),
        ('[extract]\nlanguage = "zz"\n', "extract.language must be auto, .* or an English name, got 'zz'"),
        ("[extract]\ntemperature = nan\n", r"extract.temperature must be in \[0, 2\], got nan"),
        ('[extract]\nentity_types = "person"\n', "extract.entity_types must be a list of strings, got 'person'"),
        ("nothing = 1\n", "unknown setting nothing"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(toml)
    with pytest.raises(ConfigError, match=f"settings.toml: {message}"):
        load_config(file)


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)


def test_engine_arguments_of_the_command_line_add_to_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[llm.args]\ntensor_parallel_size = 4\nseed = 1\n")
    config = load_config(file, {"llm.args": {"seed": 2}})
    assert config.llm.args == {"tensor_parallel_size": 4, "seed": 2}
