"""Aliases in whole runs, and the command that lists, edits and undoes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import graphmill
from graphmill.engine.aliases import AliasesConfig
from graphmill.engine.apply_aliases import canonical_key
from graphmill.engine.config import Config, ConfigError
from graphmill.engine.extract_claims import ClaimsConfig
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Request
from graphmill.engine.progress import Silent
from graphmill.engine.run_folder import IndexFolderError, RunFolder
from graphmill.engine.templates import load_templates
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.jobs.aliases import run as command
from graphmill.jobs.inspect import NotFoundError, entity_view
from tests.jobs.command_line import graphmill as graphmill_

REPORT = json.dumps({"title": "T", "summary": "S", "rating": 6, "rating_explanation": "why", "findings": []})
GROUPS = ({"IBM", "I.B.M.", "International Business Machines"}, {"Alice Smith", "Dr. Alice Smith"})
DOCUMENTS = [
    ("a.txt", "IBM / Alice Smith\nIBM / Armonk"),
    ("b.txt", "I.B.M. / Dr. Alice Smith\nIBM / Bob Carrow"),
    ("c.txt", "International Business Machines / Bob Carrow\nAlice Smythe / Armonk"),
]
CONFIG = Config(aliases=AliasesConfig(enabled=True))
GRAPH = ("entities", "relationships", "communities", "reports", "vectors_entities")


class Model:
    """Reads "A / B" lines as a pair of related entities, and knows which names of GROUPS are one."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.pairs: list[frozenset[str]] = []

    def __call__(self, request: Request) -> str:
        self.requests.append(request)
        kind = request.id.partition("/")[0]
        text = request.messages[0]["content"]
        if kind == "report":
            return REPORT
        if kind == "aliases":
            asked = [json.loads(line) for line in text.splitlines() if line.startswith('{"pair":')]
            names = [frozenset({pair["first"]["name"], pair["second"]["name"]}) for pair in asked]
            self.pairs += names
            said = [{"pair": n, "same": any(pair <= g for g in GROUPS)} for n, pair in enumerate(names, 1)]
            return json.dumps({"answers": said})
        if kind not in ("extract", "claims"):
            return "A summary."
        if kind == "claims" or len(request.messages) > 1:
            return "<|COMPLETE|>"
        rows = []
        for line in text.rsplit("Passage:", 1)[-1].splitlines():
            one, slash, other = line.partition(" / ")
            if slash:
                rows += [f'("entity"<|>{name}<|>thing<|>{name} is in the text)' for name in (one, other)]
                rows.append(f'("relationship"<|>{one}<|>{other}<|>{one} and {other}<|>7)')
        return "##".join([*rows, "<|COMPLETE|>"])

    def count(self, kind: str) -> int:
        return sum(request.id.startswith(kind) for request in self.requests)


def index(path: Path, documents: Any = DOCUMENTS, config: Config = CONFIG, progress: Silent | None = None) -> Model:
    model = Model()
    generator = FunctionGenerator(model, model="scripted", max_in_flight=8)
    graphmill.index(documents, path, generator, HashingEmbedder(32), WordTokenizer(), config, progress)
    return model


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("indexed") / "kb"
    index(path)
    return path


@pytest.fixture
def kb(indexed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(indexed, tmp_path / "kb"))


def names(path: Path) -> set[str]:
    return set(RunFolder.open(path).read("entities")["name"].to_pylist())


def graph(path: Path) -> dict[str, list[dict[str, Any]]]:
    folder = RunFolder.open(path)
    return {name: folder.read(name).to_pylist() for name in GRAPH}


def shown(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> dict[str, Any]:
    assert command(path, as_json=True, **options) == 0
    view: dict[str, Any] = json.loads(capsys.readouterr().out)
    return view


def rows(view: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["same_as_name"] for row in view["aliases"]}


def write(file: Path, folded: dict[str, str]) -> Path:
    file.write_text("name,same_as\n" + "".join(f"{name},{end}\n" for name, end in folded.items()), "utf-8")
    return file


FOUND = {"I.B.M.": "IBM", "International Business Machines": "IBM", "Dr. Alice Smith": "Alice Smith"}


def test_names_of_one_thing_become_one_entity_and_a_second_run_asks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb = tmp_path / "kb"
    model = index(kb)
    assert model.count("aliases") > 0
    assert names(kb) == {"IBM", "Alice Smith", "Alice Smythe", "Armonk", "Bob Carrow"}
    entities = RunFolder.open(kb).read("entities")
    (ibm,) = entities.filter(pc.equal(entities["key"], "ibm")).to_pylist()
    assert (ibm["num_chunks"], ibm["degree"]) == (3, 3)
    assert not index(kb).requests
    assert rows(shown(capsys, kb)) == FOUND
    assert canonical_key(RunFolder.open(kb), "i.b.m.") == "ibm"
    assert canonical_key(RunFolder.open(kb), "armonk") == "armonk"


def test_aliases_are_off_unless_asked_for_and_go_when_they_are_switched_off(tmp_path: Path) -> None:
    kb, plain = tmp_path / "kb", tmp_path / "plain"
    assert index(plain, config=Config()).count("aliases") == 0
    index(kb)
    assert graph(kb) != graph(plain)
    index(kb, config=Config())
    assert graph(kb) == graph(plain)
    with pytest.raises(IndexFolderError, match=r"holds no aliases: .* \[aliases\] enabled = true"):
        command(kb)
    assert index(kb).count("aliases") == 0  # what was judged is kept


def test_undoing_everything_gives_the_tables_that_there_would_be_without(
    kb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain"
    index(plain, config=Config())
    view = shown(capsys, kb, undo_all=True)
    assert (view["aliases"], view["changed"]) == ([], {"added": 0, "removed": 3})
    assert len(view["apart"]) == 4
    assert index(kb).count("extract") == 0
    assert graph(kb) == graph(plain)
    view = shown(capsys, kb, reset=True)
    assert (rows(view), view["apart"]) == (FOUND, [])
    index(kb)
    assert "I.B.M." not in names(kb)


def test_a_name_is_taken_out_of_its_group_or_its_group_taken_apart(
    kb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows(shown(capsys, kb, undo=["I.B.M."])) == {n: e for n, e in FOUND.items() if n != "I.B.M."}
    assert rows(shown(capsys, kb, undo=["ibm", "dr. alice smith"])) == {}
    index(kb)
    assert names(kb) >= {"I.B.M.", "IBM", "International Business Machines", "Dr. Alice Smith"}
    with pytest.raises(NotFoundError, match="no alias 'Bob Carrow'"):
        command(kb, undo=["Bob Carrow"])


def test_a_table_that_people_edited_wins_now_and_in_later_runs(
    kb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "aliases.csv"
    assert command(kb, export=file) == 0
    assert "3 aliases written" in capsys.readouterr().out
    lines = file.read_text("utf-8-sig").splitlines()
    kept = [line for line in lines if "Alice" not in line]
    file.write_text("\n".join([*kept, "Alice Smythe,Alice Smith", "Nobody,Bob Carrow"]), "utf-8")
    wanted = {"I.B.M.": "IBM", "International Business Machines": "IBM", "Alice Smythe": "Alice Smith"}
    view = shown(capsys, kb, edit=file)
    assert rows(view) == wanted
    assert (view["changed"], view["unknown"]) == ({"added": 1, "removed": 1}, ["nobody"])
    assert {row["name"]: row["source"] for row in view["aliases"]}["Alice Smythe"] == "edited"
    with graphmill.open(kb, embedder=HashingEmbedder(32), tokenizer=WordTokenizer()) as opened:
        assert opened.query("Who is Alice Smith?").references  # until it is indexed again, it answers as before
    model = index(kb)
    assert (model.count("extract"), model.count("aliases")) == (0, 0)
    assert names(kb) == {"IBM", "Alice Smith", "Dr. Alice Smith", "Armonk", "Bob Carrow"}
    assert not index(kb).requests
    assert rows(shown(capsys, kb, edit=file)) == wanted
    more = [*DOCUMENTS, ("d.txt", "Dr. Alice Smith / Alice Smith\nNobody / Armonk")]
    index(kb, more)
    assert rows(shown(capsys, kb)) == wanted | {"Nobody": "Bob Carrow"}


def test_the_name_that_people_chose_is_the_one_that_is_shown(kb: Path, tmp_path: Path) -> None:
    wanted = dict.fromkeys(("IBM", "I.B.M."), "International Business Machines")
    command(kb, edit=write(tmp_path / "a.csv", wanted))
    index(kb)
    assert names(kb) == {
        "International Business Machines", "Alice Smith", "Dr. Alice Smith", "Alice Smythe", "Armonk", "Bob Carrow",
    }  # fmt: skip


def test_a_new_document_costs_only_the_questions_that_are_new(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    first = index(kb)
    more = index(kb, [*DOCUMENTS, ("d.txt", "Bob Carow / Armonk")])
    assert more.pairs
    assert not set(more.pairs) & set(first.pairs)
    assert all("Bob Carow" in pair for pair in more.pairs)


def test_the_same_corpus_gives_the_same_aliases_whatever_the_order_it_comes_in(tmp_path: Path) -> None:
    index(tmp_path / "one")
    index(tmp_path / "two", DOCUMENTS[::-1])
    assert graph(tmp_path / "one") == graph(tmp_path / "two")
    tables = [RunFolder.open(tmp_path / name).read("alias_pairs") for name in ("one", "two")]
    assert tables[0].equals(tables[1])


def test_claims_about_a_folded_name_are_part_of_the_report_on_what_it_is_folded_into(tmp_path: Path) -> None:
    class Claiming(Model):
        def __call__(self, request: Request) -> str:
            text = request.messages[0]["content"]
            if not request.id.startswith("claims") or len(request.messages) > 1 or "I.B.M. / " not in text:
                return super().__call__(request)
            return "(I.B.M.<|>NONE<|>FRAUD<|>TRUE<|>NONE<|>NONE<|>I.B.M. cheated<|>it says so)<|COMPLETE|>"

    model = Claiming()
    config = Config(aliases=AliasesConfig(enabled=True), claims=ClaimsConfig(enabled=True))
    generator = FunctionGenerator(model, model="scripted")
    graphmill.index(DOCUMENTS, tmp_path / "kb", generator, HashingEmbedder(32), WordTokenizer(), config)
    reports = [request.messages[0]["content"] for request in model.requests if request.id.startswith("report")]
    assert any('"subject":"I.B.M."' in prompt for prompt in reports)
    assert "I.B.M." not in names(tmp_path / "kb")


def test_answers_that_cannot_be_read_are_told_and_nothing_is_folded(tmp_path: Path) -> None:
    class Babbling(Model):
        def __call__(self, request: Request) -> str:
            return "Hm." if request.id.startswith("aliases") else super().__call__(request)

    progress = Silent()
    generator = FunctionGenerator(Babbling(), model="scripted")
    graphmill.index(DOCUMENTS, tmp_path / "kb", generator, HashingEmbedder(32), WordTokenizer(), CONFIG, progress)
    assert any("got no answer from the model that could be read" in warning for warning in progress.warnings)
    assert RunFolder.open(tmp_path / "kb").read("aliases").num_rows == 0
    assert "I.B.M." in names(tmp_path / "kb")


def test_only_what_people_entered_is_folded_where_nothing_is_looked_for(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    config = Config(aliases=AliasesConfig(enabled=True, max_pairs=0))
    assert index(kb, config=config).count("aliases") == 0
    command(kb, edit=write(tmp_path / "a.csv", {"Armonk": "Bob Carrow"}))
    index(kb, config=config)
    assert "Armonk" not in names(kb)
    assert {"IBM", "I.B.M."} <= names(kb)


def test_without_a_model_names_that_are_all_but_equal_are_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb = tmp_path / "kb"
    texts = [
        "Ada Thornbury founded the Marrowport Harbour Trust. The Marrowport Harbour Trust owns Gull Rock Light.",
        "Edwin Carrow worked for the Marrowport Harbor Trust. The Marrowport Harbor Trust paid Edwin Carrow badly.",
    ]

    def build(config: Config) -> None:
        graphmill.index(texts, kb, None, HashingEmbedder(32), WordTokenizer(), config)

    build(Config())
    before = names(kb)
    build(CONFIG)
    after, view = names(kb), shown(capsys, kb)
    assert {row["source"] for row in view["aliases"]} == {"threshold"}
    assert set(rows(view)) <= before
    assert after == before - set(rows(view))
    shown(capsys, kb, undo_all=True)
    build(CONFIG)
    assert names(kb) == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"undo_all": True, "reset": True}, ConfigError, "one of --export, .* got --undo-all and --reset"),
        ({"edit": "nowhere.csv"}, ConfigError, "there is no file .*nowhere.csv to take --edit from"),
        ({"edit": "bad.csv"}, ConfigError, "bad.csv, line 2: name and same_as must both be filled in"),
        ({"export": "bad.csv"}, ConfigError, "bad.csv is there already"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    kb: Path, tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    (tmp_path / "bad.csv").write_text("name,same_as\nIBM,\n")
    before = (kb / "manifest.json").read_bytes()
    filled = {key: tmp_path / value if isinstance(value, str) else value for key, value in options.items()}
    with pytest.raises(error, match=message):
        command(kb, **filled)
    assert (kb / "manifest.json").read_bytes() == before
    with pytest.raises(IndexFolderError, match="no index at"):
        command(tmp_path / "nowhere", undo_all=True)
    assert not (tmp_path / "nowhere").exists()


def test_the_command_line_lists_and_undoes(kb: Path) -> None:
    listed = graphmill_("aliases", kb)
    assert listed.returncode == 0, listed.stderr
    assert_in_order(listed.stdout, ["Alice Smith\n", "Dr. Alice Smith", "IBM\n", "I.B.M.", "3 names folded into 2"])
    undone = graphmill_("aliases", kb, "--undo", "I.B.M.", "--undo", "Dr. Alice Smith")
    assert "0 rows came in, 2 went" in undone.stdout
    assert "graphmill index" in undone.stdout
    wrong = graphmill_("aliases", kb, "--undo", "Nobody")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "no alias 'Nobody'" in wrong.stderr


def assert_in_order(text: str, parts: Iterable[str]) -> None:
    at = 0
    for part in parts:
        at = text.index(part, at) + len(part)


def test_documents_that_go_and_come_back_cost_no_second_question(kb: Path) -> None:
    index(kb, DOCUMENTS[:1])
    assert index(kb).pairs == []


def test_changed_instructions_are_asked_anew(tmp_path: Path) -> None:
    source = Path(graphmill.__file__).parent / "engine" / "prompts" / "aliases.en.toml"
    file = tmp_path / "mine.toml"
    file.write_text(source.read_text("utf-8"), "utf-8")
    config = Config(aliases=AliasesConfig(enabled=True, prompts=str(file)))
    first = index(tmp_path / "kb", config=config)
    assert first.pairs
    assert index(tmp_path / "kb", config=config).pairs == []
    file.write_text(source.read_text("utf-8").replace("confirm = '''", "confirm = '''\nBe strict.\n", 1), "utf-8")
    load_templates.cache_clear()  # a run of its own reads the file anew
    assert sorted(map(sorted, index(tmp_path / "kb", config=config).pairs)) == sorted(map(sorted, first.pairs))


def test_between_an_edit_and_the_next_run_names_are_found_as_the_graph_has_them(
    kb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, kb, undo=["I.B.M."])
    folder = RunFolder.open(kb)
    assert entity_view(folder, "I.B.M.", 5)["name"] == "IBM"
    index(kb)
    assert entity_view(RunFolder.open(kb), "I.B.M.", 5)["name"] == "I.B.M."
