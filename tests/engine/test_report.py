from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, WordTokenizer

from graphmill.engine.cluster import COMMUNITIES
from graphmill.engine.context_rows import entity_lines, json_lines, line_tokens, relationship_lines
from graphmill.engine.models import Reply, Request
from graphmill.engine.prompt_language import language_of_sources
from graphmill.engine.report import REPORTS, ReportConfig, report
from graphmill.engine.report_text import REPORT_SCHEMA, read_report
from graphmill.engine.resolve import ENTITIES, RELATIONSHIPS

CASES = {
    case["id"]: case
    for case in map(json.loads, Path(__file__).parent.with_name("cases.jsonl").read_text("utf-8").splitlines())
}
TOKENS = WordTokenizer()
GOOD = json.dumps(
    {
        "title": "T",
        "summary": "S.",
        "rating": 7,
        "rating_explanation": "why",
        "findings": [{"summary": "F", "explanation": "E."}],
    }
)


def graph(
    names: list[str], edges: list[tuple[int, int]], text: str = "{} is known for its work."
) -> tuple[pa.Table, pa.Table]:
    """ENTITIES and RELATIONSHIPS of a graph; descriptions are made from the names."""
    degree = np.bincount(np.array(edges, dtype=np.int64).reshape(-1, 2).ravel(), minlength=len(names))
    entities = pa.table(
        {
            "entity_id": [f"e{i}" for i in range(len(names))],
            "key": names,
            "name": names,
            "type": ["PERSON"] * len(names),
            "descriptions": [[text.format(name)] for name in names],
            "description": [text.format(name) for name in names],
            "chunk_ids": [["c0"]] * len(names),
            "num_chunks": [1] * len(names),
            "degree": degree,
            "rank": degree.astype(np.float64),
            "num_tokens": [0] * len(names),
        },
        schema=ENTITIES,
    )
    pairs = [(names[a], names[b]) for a, b in edges]
    relationships = pa.table(
        {
            "relationship_id": [f"r{i}" for i in range(len(edges))],
            "source_id": [f"e{a}" for a, _ in edges],
            "target_id": [f"e{b}" for _, b in edges],
            "source": [a for a, _ in pairs],
            "target": [b for _, b in pairs],
            "descriptions": [[f"{a} met {b}."] for a, b in pairs],
            "description": [f"{a} met {b}." for a, b in pairs],
            "keywords": [[]] * len(edges),
            "weight": [float(1 + i % 3) for i in range(len(edges))],
            "chunk_ids": [["c0"]] * len(edges),
            "combined_degree": [degree[a] + degree[b] for a, b in edges],
            "rank": [float(degree[a] + degree[b]) for a, b in edges],
            "num_tokens": [0] * len(edges),
        },
        schema=RELATIONSHIPS,
    )
    return entities, relationships


def communities(groups: list[tuple[int, int, list[int]]], edges: list[tuple[int, int]]) -> pa.Table:
    """COMMUNITIES from (level, parent, entities) triples."""
    rows = []
    for number, (level, parent, members) in enumerate(groups):
        rows.append(
            {
                "community_id": f"c{number}",
                "community": number,
                "level": level,
                "parent": parent,
                "children": [n for n, (_, p, _) in enumerate(groups) if p == number],
                "entity_ids": [f"e{e}" for e in members],
                "relationship_ids": [f"r{i}" for i, (a, b) in enumerate(edges) if a in members and b in members],
                "chunk_ids": ["c0"],
                "size": len(members),
                "occurrence": 1.0,
            }
        )
    return pa.Table.from_pylist(rows, schema=COMMUNITIES)


def prompt_of(request: Request) -> str:
    return request.messages[0]["content"]


def material_of(request: Request) -> str:
    text = prompt_of(request)
    for heading in ("# Your material", "# 你的材料"):
        text = text.partition(heading)[2] or text
    return text


TWO_LEVELS = [(0, -1, [0, 1, 2, 3, 4]), (1, 0, [0, 1, 2]), (1, 0, [3, 4]), (0, -1, [5])]
EDGES = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]
NAMES = ["Ada", "Bob", "Cyd", "Dan", "Eve", "Flo"]


def write(model: Scripted | None, config: ReportConfig | None = None, language: Any = "auto") -> pa.Table:
    return report(
        communities(TWO_LEVELS, EDGES), *graph(NAMES, EDGES), model, TOKENS, config or ReportConfig(), language
    )


def test_there_is_a_row_for_every_community_and_the_deepest_level_is_asked_about_first() -> None:
    model = Scripted(lambda r: GOOD)
    reports = write(model)
    assert reports.schema == REPORTS
    assert reports["community"].to_pylist() == [0, 1, 2, 3]
    assert reports["source"].to_pylist() == ["model", "model", "model", "extractive"]
    assert [r.id for r in model.requests] == ["report/1", "report/2", "report/0"]
    assert all(r.schema == REPORT_SCHEMA for r in model.requests)
    assert reports["full_text"][0].as_py() == "# T\n\nS.\n\n## F\n\nE."
    assert reports["num_tokens"].to_pylist() == TOKENS.count(reports["full_text"].to_pylist()).tolist()
    assert reports["rating"][0].as_py() == 7.0


def test_a_context_lists_relationships_by_rank_and_each_entity_once() -> None:
    model = Scripted(lambda r: GOOD)
    write(model)
    material = material_of(model.requests[-1])
    lines = [json.loads(line) for line in material.splitlines() if line.startswith("{")]
    assert [line["entity"] for line in lines if "entity" in line] == ["Ada", "Cyd", "Bob", "Dan", "Eve"]
    # Combined degrees are 4, 5, 5, 5 and 3; of the equal ones the heavier comes first.
    pairs = [(line["source"], line["target"]) for line in lines if "source" in line]
    assert pairs == [("Ada", "Cyd"), ("Bob", "Cyd"), ("Cyd", "Dan"), ("Ada", "Bob"), ("Dan", "Eve")]


def test_a_reply_that_needs_mending_is_repaired() -> None:
    found = read_report(CASES["R01"]["input"]["raw"])
    expected = CASES["R01"]["expected"]
    assert found is not None
    assert (found.title, found.summary, found.rating) == (expected["title"], expected["summary"], expected["rating"])
    assert [f._asdict() for f in found.findings] == expected["findings"]
    assert found.is_repaired
    reports = write(Scripted(lambda r: CASES["R01"]["input"]["raw"]))
    assert reports["source"].to_pylist() == ["repaired"] * 3 + ["extractive"]


def test_a_reply_without_a_report_is_asked_for_once_more_and_then_made_from_the_top_entities() -> None:
    model = Scripted(lambda r: CASES["R03"]["input"]["raw"])
    reports = write(model)
    assert reports["source"].to_pylist() == ["fallback"] * 3 + ["extractive"]
    assert reports["rating"].to_pylist()[:3] == [0.0, 0.0, 0.0]
    assert reports["title"][2].as_py() == "Dan and Eve"
    assert len(model.requests) == 6
    again = [r for r in model.requests if len(r.messages) == 3]
    assert len(again) == 3
    assert again[0].messages[1] == {"role": "assistant", "content": "I cannot help with that."}


def test_a_second_reply_that_can_be_read_counts() -> None:
    model = Scripted(lambda r: GOOD if len(r.messages) == 3 else '{"title": ')
    assert write(model)["source"].to_pylist() == ["model"] * 3 + ["extractive"]


def test_an_error_is_not_asked_about_again() -> None:
    model = Scripted(lambda r: None)
    assert write(model)["source"].to_pylist() == ["fallback"] * 3 + ["extractive"]
    assert len(model.requests) == 3


def test_a_community_of_one_entity_takes_no_call() -> None:
    model = Scripted(lambda r: GOOD)
    groups = [(0, -1, [n]) for n in range(3)]
    reports = report(communities(groups, []), *graph(NAMES[:3], []), model, TOKENS, ReportConfig())
    assert model.requests == []
    assert reports["source"].to_pylist() == ["extractive"] * 3
    assert reports["title"].to_pylist() == NAMES[:3]
    assert reports["summary"][0].as_py() == "Ada is known for its work."


def test_no_communities_give_no_reports() -> None:
    for model in (None, Scripted(lambda r: GOOD)):
        assert report(communities([], []), *graph([], []), model, TOKENS, ReportConfig()).num_rows == 0


CLIQUE = [(a, b) for a in range(20) for b in range(a) if a // 10 == b // 10] + [(9, 10)]
LONG_NAMES = [f"Person{n}" for n in range(20)]
LONG = "{} " + "is described at length and " * 8 + "so on."


def test_where_a_community_does_not_fit_the_largest_sub_communitys_report_stands_for_its_members() -> None:
    groups = [(0, -1, list(range(20))), (1, 0, list(range(10))), (1, 0, list(range(10, 20)))]
    tables = graph(LONG_NAMES, CLIQUE, LONG)
    tokens = [
        line_tokens(lines(t), TOKENS).sum() for lines, t in zip((entity_lines, relationship_lines), tables, strict=True)
    ]
    assert sum(tokens) > 3000
    model = Scripted(lambda r: GOOD)
    report(communities(groups, CLIQUE), *tables, model, TOKENS, ReportConfig(report_tokens=2500))
    material = material_of(model.requests[-1])
    assert "# T\n\nS.\n\n## F\n\nE." in material
    shown = {json.loads(line)["entity"] for line in material.splitlines() if line.startswith('{"entity"')}
    # Both parts are of one size, and one of them is enough: the other's members stay, and so does what links the two.
    assert shown == {f"Person{n}" for n in range(10, 20)}
    pairs = [json.loads(line) for line in material.splitlines() if line.startswith('{"source"')]
    assert {(p["source"], p["target"]) for p in pairs} == {
        (LONG_NAMES[a], LONG_NAMES[b]) for a, b in CLIQUE if a >= 10 or b >= 10
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1000, 4000), st.integers(1, 4))
def test_no_context_exceeds_its_budget_and_what_is_in_it_is_whole(seed: int, budget: int, num_parts: int) -> None:
    rng = np.random.default_rng(seed)
    edges = sorted({(int(max(p)), int(min(p))) for p in rng.integers(0, 30, (120, 2)) if p[0] != p[1]})
    part = rng.integers(0, num_parts, 30)
    groups = [(0, -1, list(range(30)))] + [(1, 0, np.flatnonzero(part == n).tolist()) for n in range(num_parts)]
    groups = [group for group in groups if group[2]]
    names = [f"Person{n}" for n in range(30)]
    tables = graph(names, edges, "{} " + "word " * int(rng.integers(1, 60)) + ".")
    model = Scripted(lambda r: GOOD.replace('"E."', json.dumps("word " * int(rng.integers(1, 900)))))
    reports = report(communities(groups, edges), *tables, model, TOKENS, ReportConfig(report_tokens=budget))
    for request in model.requests:
        material = material_of(request).partition("Output:")[0]
        assert int(TOKENS.count([material])[0]) <= budget
        rows = [json.loads(line) for line in material.splitlines() if line.startswith("{")]
        entities = [row["entity"] for row in rows if "entity" in row]
        assert len(entities) == len(set(entities))
        has_reports = "Reports on parts" in material
        for row in rows:
            if "source" in row and not has_reports:
                assert {row["source"], row["target"]} <= set(entities)
    fits = int(
        line_tokens(entity_lines(tables[0]), TOKENS).sum() + line_tokens(relationship_lines(tables[1]), TOKENS).sum()
    )
    if fits <= budget - 40:
        assert "Reports on parts" not in material_of(model.requests[-1])
    assert set(reports["source"].to_pylist()) <= {"model", "repaired", "extractive"}


def test_prompts_ask_for_the_language_of_the_material() -> None:
    names = ["沈若兰", "贺明远", "林舟"]
    edges = [(0, 1), (1, 2)]
    tables = graph(names, edges, "{}参加了青岚江大桥的通车剪彩。")
    model = Scripted(lambda r: GOOD)
    report(communities([(0, -1, [0, 1, 2])], edges), *tables, model, TOKENS, ReportConfig())
    assert "所有文字用中文书写" in prompt_of(model.requests[0])
    assert "关系：\n{" in prompt_of(model.requests[0])
    german = Scripted(lambda r: GOOD)
    write(german, language=["de", "zh", "", "auto"])
    assert "Write all texts in Chinese" not in prompt_of(german.requests[0])
    assert "用中文书写" in prompt_of(german.requests[0])
    assert "in the language of the source text" in prompt_of(german.requests[1])
    assert "Write all texts in German" in prompt_of(german.requests[2])


def test_without_a_model_reports_read_well_and_say_nothing_twice() -> None:
    reports = write(None)
    assert set(reports["source"].to_pylist()) == {"extractive"}
    assert reports["full_text"][2].as_py() == (
        "# Dan and Eve\n\n"
        "Dan and Eve are related to each other. Dan is known for its work. Eve is known for its work.\n\n"
        "## Dan and Eve\n\nDan met Eve."
    )
    assert (
        reports["summary"][0]
        .as_py()
        .startswith("This group of 5 entities and 5 relationships centres on Cyd, Ada and Bob.")
    )
    for text in reports["full_text"].to_pylist():
        sentences = [s for s in text.replace("\n\n", " ").split(". ") if "known" in s]
        assert len(sentences) == len(set(sentences))


def test_a_co_occurrence_without_a_description_is_told_by_a_sentence_that_names_both() -> None:
    entities, relationships = graph(["Ada", "Bob"], [(0, 1)], "{} works alone. She met Bob once. Ada paid Bob.")
    blank = pa.array([""], pa.string())
    place = relationships.schema.get_field_index("description")
    relationships = relationships.set_column(place, "description", blank)
    groups = communities([(0, -1, [0, 1])], [(0, 1)])
    row = report(groups, entities, relationships, None, TOKENS, ReportConfig()).to_pylist()[0]
    assert row["summary"] == "Ada and Bob are related to each other. Ada works alone. Bob works alone."
    assert row["findings"][0] == {"summary": "Ada and Bob", "explanation": "Ada paid Bob."}


def test_without_a_model_chinese_material_gets_chinese_words_around_it() -> None:
    tables = graph(["沈若兰", "贺明远"], [(0, 1)], "{}参加了大桥的通车剪彩。")
    reports = report(communities([(0, -1, [0, 1])], [(0, 1)]), *tables, None, TOKENS, ReportConfig())
    row = reports.to_pylist()[0]
    assert row["title"] == "沈若兰和贺明远"
    assert (
        row["summary"] == "“沈若兰”和“贺明远”之间有直接关系。沈若兰参加了大桥的通车剪彩。贺明远参加了大桥的通车剪彩。"
    )
    assert "权重" in row["rating_explanation"]


def test_ratings_without_a_model_follow_the_weight_inside() -> None:
    reports = write(None)
    # Weights inside are 1+2+3+1+2, 1+2+3, 2 and 0.
    assert reports["rating"].to_pylist() == [
        10.0,
        round(1 + 9 * (6 / 9) ** (1 / 3), 1),
        round(1 + 9 * (2 / 9) ** (1 / 3), 1),
        1.0,
    ]


@pytest.mark.parametrize(
    ("value", "rating"),
    [
        (8.5, 8.5),
        ("8.5/10", 8.5),
        ("85/100", 8.5),
        ("9", 9),
        (-3, 0),
        (42, 10),
        ("high", 0),
        (None, 0),
        ("7,5", 7.5),
        ([], 0),
    ],
)
def test_ratings_are_numbers_from_0_to_10(value: Any, rating: float) -> None:
    found = read_report(json.dumps({"title": "T", "summary": "S", "rating": value, "findings": []}))
    assert found is not None
    assert found.rating == rating


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.none() | st.text() | st.floats() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_findings_are_read_as_text(findings: Any) -> None:
    found = read_report(json.dumps({"title": "T", "summary": "\ud800S\x00", "findings": findings}))
    assert found is not None
    assert found.summary.endswith("S")
    assert len(found.findings) <= 10
    found.render().encode()


def test_a_model_whose_context_is_too_small_is_refused_with_the_settings_to_change() -> None:
    with pytest.raises(ValueError, match=r"context of 2048.*report\.max_tokens=2000"):
        write(Scripted(lambda r: GOOD, context_tokens=2048))
    small = Scripted(lambda r: GOOD, context_tokens=4096)
    write(small, ReportConfig(max_tokens=600))
    assert max(TOKENS.count(small.prompts())) <= 4096 - 600


def test_progress_counts_every_report() -> None:
    told: list[int] = []
    tables = graph(NAMES, EDGES)
    report(
        communities(TWO_LEVELS, EDGES),
        *tables,
        Scripted(lambda r: Reply(r.id, GOOD)),
        TOKENS,
        ReportConfig(),
        "en",
        told.append,
    )
    assert sum(told) == 4


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"a": st.text(), "b": st.none() | st.text(), "n": st.integers(0, 9)}), max_size=8)
)
def test_json_lines_are_json_and_lose_only_empty_values_and_control_characters(rows: list[dict[str, Any]]) -> None:
    fields = {
        "a": pa.array([row["a"] for row in rows], pa.string()),
        "b": pa.array([row["b"] for row in rows], pa.string()),
        "n": pa.array([row["n"] for row in rows], pa.int64()),
    }
    lines = json_lines(fields).to_pylist()

    def cleaned(text: str) -> str:
        return "".join(c for c in text if (c >= " " and c != "\x7f") or c in "\n\t")

    expected = []
    for row in rows:
        kept = {"a": cleaned(row["a"]), "b": cleaned(row["b"] or ""), "n": row["n"]}
        expected.append({key: value for key, value in kept.items() if key != "b" or value})
    assert [json.loads(line) for line in lines] == expected
    assert not any("\n" in line for line in lines)


def test_the_language_of_a_row_is_that_of_most_of_its_chunks() -> None:
    chunks = pa.table({"chunk_id": ["a", "b", "c", "d"], "language": ["zh", "zh", "en", None]})
    lists = pa.array([["a", "b", "c"], [], ["c"], ["d", "elsewhere"], ["a", "c"]])
    assert language_of_sources(lists, chunks) == ["zh", "", "en", "", "en"]
