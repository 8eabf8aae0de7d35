"""The language of a text: by script and by function words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.language import detect_language

TEXTS = {
    "en": "The harbour was quiet when the ferry came in, and nobody on the quay had a word to say for it.",
    "zh": "港口很安静，渡轮进港的时候，码头上没有人说一句话。",
    "ja": "フェリーが港に入ったとき、埠頭では誰も何も言わなかった。",
    "ko": "페리가 들어왔을 때 부두에 있던 사람은 아무도 말을 하지 않았다.",
    "ru": "Когда паром вошёл в гавань, на причале никто не сказал ни слова.",
    "de": "Der Hafen war still, und als die Fähre einlief, sagte auf dem Kai niemand ein Wort; das ist nicht neu.",
    "fr": "Le port était calme et les gens qui attendaient sur le quai ne disaient pas un mot dans la nuit.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_each_language_is_told_from_a_sentence_or_two(code: str) -> None:
    assert detect_language(TEXTS[code]) == code
    assert detect_language(TEXTS[code] * 2000) == code


def test_a_few_foreign_names_do_not_change_the_language() -> None:
    assert detect_language(TEXTS["en"] + " She wrote to Lin Zhiruo (林芷若) of 北岭大学.") == "en"
    assert detect_language(TEXTS["zh"] + "哈尔沃森（Ingrid Halvorsen）用 Python 和 NumPy 写程序。") == "zh"


def test_chinese_that_explains_program_code_is_chinese() -> None:
    assert (
        detect_language("先安装软件包，再运行下面的命令来检查配置文件：\n\n    apt-get install foo\n    foo --check")
        == "zh"
    )


def test_what_says_nothing_is_english() -> None:
    for text in ("", "   \n", "12345 67 89", "{}[]();", "🙂🙂"):
        assert detect_language(text) == "en"


@given(st.text())
def test_any_text_has_a_language(text: str) -> None:
    assert detect_language(text).isalpha()
