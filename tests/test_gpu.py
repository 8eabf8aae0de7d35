"""The sample corpus on a CUDA device and on the CPU: the same tables as far as they must be."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphmill
from graphmill.engine.config import load_config
from graphmill.engine.run_folder import RunFolder
from graphmill.kernels.split import modularity

SAMPLE = Path(graphmill.__file__).parent / "sample" / "corpus"

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    found = {}
    for device in ("cpu", "cuda"):
        path = tmp_path_factory.mktemp("sample") / device
        graphmill.index(SAMPLE, path, config=load_config(None, {"device": device}))
        found[device] = RunFolder.open(path)
    return found


@pytest.mark.parametrize("table", ["chunks", "extractions", "readings", "entities", "relationships"])
def test_tables_up_to_the_graph_are_the_same_row_for_row(folders: dict[str, RunFolder], table: str) -> None:
    assert folders["cuda"].read(table) == folders["cpu"].read(table)


def test_first_communities_are_within_one_per_cent_in_modularity(folders: dict[str, RunFolder]) -> None:
    found = {}
    for device, folder in folders.items():
        entities, relationships = folder.read("entities"), folder.read("relationships")
        row = {name: place for place, name in enumerate(entities["entity_id"].to_pylist())}
        label = [0] * len(row)
        for community in folder.read("communities").to_pylist():
            for entity in community["entity_ids"] if community["level"] == 0 else ():
                label[row[entity]] = community["community"]
        source, target = ([row[end] for end in relationships[name].to_pylist()] for name in ("source_id", "target_id"))
        found[device] = modularity(source, target, relationships["weight"].to_numpy(), label)  # type: ignore[arg-type]
    assert found["cuda"] == pytest.approx(found["cpu"], rel=0.01)
