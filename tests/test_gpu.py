"""The sample corpus on a CUDA device and on the CPU: the same tables as far as they must be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import graphmill
from graphmill.engine.config import load_config
from graphmill.engine.read_replies import Told, read_replies
from graphmill.engine.read_reply import LAYOUTS
from graphmill.engine.run_folder import RunFolder
from graphmill.kernels.backend import backend
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


@pytest.mark.parametrize("profile", ["graphrag", "lightrag-classic", "lightrag", "graphgen"])
@pytest.mark.parametrize("separator", ["##\n", "\n", "##"])
def test_replies_are_read_the_same_on_both(profile: str, separator: str) -> None:
    layout = LAYOUTS[profile]
    found = {}
    for device in ("cpu", "cuda"):
        replies = [Told(_reply(number, profile, separator), layout, "stop") for number in range(600)]
        table = read_replies(replies, backend(device))
        by_frames = [reply.reading is None for reply in replies]
        found[device] = (table, by_frames, [(reply.complete, dict(reply.reasons)) for reply in replies])
    assert found["cuda"][0] == found["cpu"][0]
    assert found["cuda"][1:] == found["cpu"][1:]
    assert 400 < sum(found["cpu"][1]) < 600


def _reply(number: int, profile: str, separator: str) -> str:
    """Well formed, but for some: with odd names and texts, and damaged here and there."""
    said = ["plain words", '"quoted"', "a (b (c)) d", "R&D and C#", "北京的人物", "“curly”", "an_id", "", "'tis so"]
    damage = ["a < b", "smiles :)", "&amp;", "two\nlines", "é\u200b", "a ## b", "a ｜ b", "x\x7f"]
    names = [f"Name {n % 17}" if n % 5 else f'"NAME  {n % 17}"' for n in range(number, number + 6)] + ["...", '""']
    values = {"keywords": f"trade, Power {number % 7}; trade", "strength": ["7", "8/10", "high", "９"][number % 4]}
    rows = []
    for place, (one, other) in enumerate(pairwise(names)):
        text = said[(number + place) % len(said)]
        if number % 6 == 0 and place == 3:
            text = damage[number // 6 % len(damage)]
        rows.append(["entity", one, "person", f"{text} of {number}" if text else ""])
        values["description"] = (
            f"{text} and more than eighty characters, so that no one could take it for a strength: {text}"
        )
        rows.append(["relationship", one, other, *(values[name] for name in LAYOUTS[profile].relationship[2:])])
    rows.append(["content_keywords", "anvils, iron"])
    quote = '"' if LAYOUTS[profile].quoted_tag else ""
    texts = [f"({'<|>'.join([quote + tag + quote, *fields])})" for tag, *fields in rows]
    return separator.join(texts) + "\n<|COMPLETE|>"
