"""The package as it is shipped: whole in every form, light to import, and imported under its own name alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = (
    "faiss",
    "triton",
    "torch",
    "transformers",
    "vllm",
    "cudf",
    "cupy",
    "cugraph",
    "cuvs",
    "ray",
    "pandas",
    "pyarrow",
    "numpy",
    "jieba",
)
EXPECTED = (
    "graphmill/__init__.py",
    "graphmill/__main__.py",
    "graphmill/py.typed",
    "graphmill/engine/pipeline.py",
    "graphmill/engine/prompts/graphrag.zh.toml",
    "graphmill/kernels/leiden.py",
    "graphmill/jobs/cli.py",
    "graphmill/sample/questions.jsonl",
    "graphmill/sample/corpus/records/renwick-grants.csv",
)
USE = "import graphmill.engine.pipeline, graphmill.kernels.leiden, graphmill.jobs.cli; print(graphmill.__file__)"


def python(code: str, cwd: Path, path: Path | None = None) -> str:
    """Runs code in a fresh interpreter, from another folder than the checkout."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def build(kind: str, source: Path, out: Path) -> Path:
    """A wheel or an sdist, built as pip would."""
    code = f"import hatchling.build as b; print(b.build_{kind}({str(out)!r}))"
    return out / python(code, source).splitlines()[-1]


@pytest.mark.parametrize("code", ["import graphmill", "import graphmill.jobs.cli"])
def test_importing_loads_nothing_heavy(tmp_path: Path, code: str) -> None:
    loaded = python(f"{code}, sys; print(*sys.modules)", tmp_path).split()
    assert set(HEAVY) & set(loaded) == set()


def test_an_interrupt_while_the_package_loads_what_it_needs_comes_at_the_end_and_it_works_after_it(
    tmp_path: Path,
) -> None:
    code = (
        "import signal, sys, graphmill\n"
        "class AtImport:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy.dtypes':\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, AtImport())\n"
        "try:\n"
        "    graphmill.open\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "print(graphmill.open.__name__)"
    )
    assert python(code, tmp_path, ROOT).split() == ["interrupted", "open_index"]


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, atexit; atexit.register(lambda: print('MODULES', *sys.modules)); "
    code += "sys.argv = ['graphmill', '--help']; from graphmill.jobs.cli import main; main()"
    shown = python(code, tmp_path)
    help_text, _, modules = shown.partition("MODULES")
    assert {"index", "query", "inspect", "parse", "doctor"} <= set(help_text.split())
    assert set(HEAVY) & set(modules.split()) == set()


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "graphmill"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [*command, "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("graphmill ")
    wrong = subprocess.run([*command, "frobnicate"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert wrong.returncode == 2


def test_the_wheel_holds_the_whole_package_and_works_from_another_folder(tmp_path: Path) -> None:
    wheel = build("wheel", ROOT, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert set(EXPECTED) <= names
    assert not {name.split("/")[0] for name in names} & {"engine", "kernels", "jobs", "tests", "benchmarks"}
    assert python(USE, tmp_path, tmp_path / "site").startswith(str(tmp_path))


def test_the_sdist_holds_the_whole_package_and_builds_the_same_wheel(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    (tmp_path / "wheel").mkdir()
    with zipfile.ZipFile(build("wheel", unpacked, tmp_path / "wheel")) as archive:
        assert set(EXPECTED) <= set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert python(USE, tmp_path, tmp_path / "site").startswith(str(tmp_path))


def test_the_installed_package_is_importable_from_another_folder(tmp_path: Path) -> None:
    assert Path(python(USE, tmp_path)).name == "__init__.py"


def test_imports_go_down_only() -> None:
    allowed = {"kernels": {"kernels"}, "engine": {"kernels", "engine"}, "jobs": {"kernels", "engine", "jobs"}}
    for folder, below in allowed.items():
        for file in (ROOT / folder).rglob("*.py"):
            found = set(re.findall(r"(?:from|import) graphmill\.(\w+)", file.read_text("utf-8")))
            assert found <= below, f"{file} imports {found - below}"


def test_kernels_know_no_files_and_no_models() -> None:
    for file in (ROOT / "kernels").glob("*.py"):
        known = "pathlib|os|io|transformers|httpx"
        if file.name not in ("topk_triton.py", "topk_matmul.py"):  # whose arrays are tensors
            known += "|torch"
        assert not re.search(rf"^\s*(?:import|from) (?:{known})\b", file.read_text("utf-8"), re.M)
