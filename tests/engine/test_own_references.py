"""The section of references that a model writes itself goes; what only looks like one stays."""

from __future__ import annotations

import pytest

from graphmill.engine.cite import without_own_references
from graphmill.engine.own_references import may_begin_section
from graphmill.engine.shown_text import ShownText

BODY = "Ada met Elias [1]."


@pytest.mark.parametrize(
    "section",
    [
        "## Sources\n\n- [1] harbour.md",
        "### References (2)\n\n1. a.md\n2. b.md",
        "### 引用\n\n- [1] 甲",
        "### Referenzen\n\n- [1] a.md",
        "**References:**",
        "**References**\n\na.md\nb.md",
        "**References:** [1], [2]",
        "References: [1], [2]",
        "Sources: a.md, b.md and [2]",
        "参考资料：[1][2]",
        "Quellen:\n- **a.md**\n- https://a.b/c",
        "## References\n- Ada Thornbury\n- Elias Wren, 1843",
        "References\n---\n[KG] Ada",
        "### References\n- [1] a\n\n### Sources\n- [2] b",
        "[^1]: a.md\n[^2]: the letters of Ada",
        "[1]: http://a.b",
        "### References\n\n- [1] a.md\n  of 1843\n\n  and later\n- [2] b.md",
        "*References*\n[1] a",
        "6. References\n\n[1] a",
        "## 6. References\n\n- a",
        "References\n- [1] a\n***",
        "---\n\n___\n\nSources:\n[1] a",
        "# References",
        "References",
    ],
)
def test_a_section_at_the_end_goes(section: str) -> None:
    assert without_own_references(f"{BODY}\n\n{section}\n") == BODY


@pytest.mark.parametrize(
    "content",
    [
        "## Sources\n\nThe Nile has two: a lake and a river.",
        "## Sources\n\n- The White Nile rises at Lake Victoria [1].\n- Lake Tana",
        "## Sources\n\n- main.py: where it starts",
        "## References\n\nThey are few. The end.",
        "## References\n\n- [1] a.md\n\nThat is all.",
        "## References\n**Note:** there are none.",
        "## References to Ada\n\n- [1] a.md",
        "Sources: the Nile has two.",
        "References: [1] says that she did.",
        "So they did.\nSources: [2]",
        "Sources: [1]\n\nAnd Bea [2].\n\nSources: [2]",
        "The word is\nSources",
        "[1]: that is the answer",
        "```\n## References\n- [1] a.md\n```",
        "- [1] a.md\n- [2] b.md",
        "```yaml\nsources:\n- a.md\n- b.md",
        "Introduction\nMethod\nReferences",
        "Method\n\nSources",
        "1. Introduction\n2. References",
        "1. Introduction\n2. References\n3. [1]",
        "1. Introduction\n\n2. References\n\n3. Index",
        "* References\n* [1]",
        "References:\n- [1] a\nand more",
        "References\n\n  They are few.",
        "Nothing more.\n\n---",
    ],
)
def test_content_stays(content: str) -> None:
    assert without_own_references(f"{BODY}\n\n{content}") == f"{BODY}\n\n{content}"


def test_what_only_the_section_cites_is_still_cited() -> None:
    assert without_own_references("Ada met Elias.\n\n### Sources\n- [2] b.md\n- [1] a.md") == "Ada met Elias.\n\n[2][1]"
    assert without_own_references("Ada met Elias.\n\nReferences: a.md") == "Ada met Elias."
    assert without_own_references("Ada met Elias.\n\n---\n\n### Sources\n- [2] b.md") == "Ada met Elias.\n\n[2]"
    assert without_own_references("### Sources\n- [2] b.md") == ""


@pytest.mark.parametrize("run", [" ", "\t", "# ", "#", "* ", "-", "[", "( ", "[1"])
@pytest.mark.parametrize("before", ["", "#", "References", "References:", "References (", "Sources: [1", "- [1"])
def test_a_long_run_of_one_character_ends(run: str, before: str) -> None:
    """In steps as many as the square of its length this would take minutes, of its cube years."""
    line = f"{before}{run * (100_000 // len(run))}x"
    assert not may_begin_section(line) or before.endswith((":", "[1"))
    assert without_own_references(f"{BODY}\n\n{line}.") == f"{BODY}\n\n{line}."
    assert ShownText({1}).add(f"{BODY}\n\n{line}").startswith(BODY)
