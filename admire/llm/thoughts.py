"""Removes the thoughts of reasoning models, if a server leaves them in the reply."""

from __future__ import annotations

import re

_TAGS = "think|thinking|thoughts?|reasoning|reflection|seed:think"
FORMATS = {
    # DeepSeek-R1, Qwen3, GLM and most others; EXAONE; Seed-OSS
    rf"<(?:{_TAGS})(?:\s[^<>]{{0,99}})?>": rf"</(?:{_TAGS})>",
    r"\[THINK\]": r"\[/THINK\]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
    r"<\|START_THINKING\|>": r"<\|END_THINKING\|>",  # Command A
    r"<\|begin_of_thought\|>": r"<\|end_of_thought\|>",  # OpenThinker
    r"<\|channel>\s*thought\b": r"<channel\|>",  # Gemma
    # gpt-oss
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)\b": (
        r"<\|channel\|>final\b[^<>]{0,99}<\|message\|>"
    ),
    r"Here(?: is|'s) my thought process:": r"Here(?: is|'s) my response:",  # Granite
}
"""How thoughts begin and end, in the formats of the parsers of vLLM, SGLang and llama.cpp."""

_PLAIN = r"\A\s*+(?:assistant)?(?:analysis|commentary)\s?(?=[A-Z])"
_PLAIN_END = r"assistant\s?final(?:json)?"  #: gpt-oss from servers that remove its special tokens
_BEGINNING = re.compile("|".join((_PLAIN, *FORMATS)))
_END_OR_BRACE = re.compile(rf"[{{}}]|{'|'.join(FORMATS.values())}")
_END_IN_PLAIN = re.compile(rf"{_END_OR_BRACE.pattern}|{_PLAIN_END}")
_FRAME = (
    r"</?(?:answer|response|final)>|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>|"
    r"<\|(?:return|end|im_end|eot_id)\|>"
)
_FRAMES = re.compile(rf"(?:(?:{_FRAME})\s*+)++")  #: marks that some models put around their answer


def without_thoughts(text: str) -> str | None:
    """Return the answer that comes after a model's thoughts; None if they do not end.

    Thoughts may have several parts, may quote the mark that ends them, and may lack the mark that
    begins them, because some chat templates contain it. A mark within a JSON object of the answer
    is a quotation.
    """
    signs = _END_IN_PLAIN if re.match(_PLAIN, text) else _END_OR_BRACE
    end = inside = 0  # where the last thoughts outside an object end
    for sign in reversed([*signs.finditer(text)]):
        if sign[0] in "{}":
            inside = max(inside + (1 if sign[0] == "}" else -1), 0)
        elif not inside:
            end = sign.end()
            break
    answer = text[end:]
    begins = _BEGINNING.search(answer)
    if begins and "{" not in answer[: begins.start()]:
        answer = answer[: begins.start()].rstrip()
        if not answer:
            return None
    if len(answer) == len(text):
        return text
    answer = answer.lstrip()
    around = (0, len(answer))
    return _FRAMES.sub(lambda mark: "" if {*mark.span()} & {*around} else mark[0], answer)
