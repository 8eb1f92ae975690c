"""The chat models that OpenAI retires."""

from __future__ import annotations

import re
from datetime import date

RETIRED = {
    "2026-02-17": ("chatgpt-4o-latest",),
    "2026-07-23": ("gpt-5-chat-latest", "gpt-5.1-chat-latest"),
    "2026-08-10": ("gpt-5.2-chat-latest", "gpt-5.3-chat-latest"),
    "2026-10-23": (
        *("gpt-3.5-turbo", "gpt-3.5-turbo-0125", "gpt-4", "gpt-4-0613", "gpt-4-1106-preview"),
        *("gpt-4-turbo", "gpt-4o-2024-05-13", "gpt-4.1-nano", "o1", "o1-pro", "o3-mini", "o4-mini"),
    ),
    "2026-12-11": ("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "o3", "o3-pro"),
    "2027-01-14": ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini"),
    "2027-04-01": ("gpt-5.1", "gpt-5.4-nano"),
}
"""Chat models that OpenAI retires, by the day, as known in November 2026. A name includes its
dated versions. From https://developers.openai.com/api/docs/deprecations"""


def retired(name: str, today: date | None = None) -> str:
    """Return when OpenAI retires a chat model: "retired on 2026-10-23", "will be retired on …".

    Empty for a model that is not in :data:`RETIRED`.

    Args:
        name: as for :func:`admire.llm.open_llm`.
    """
    family, _, model = name.partition(":")
    if family != "openai":
        return ""
    names = {model, re.sub(r"-\d{4}-\d\d-\d\d$", "", model)}
    day = next((day for day, models in RETIRED.items() if names & {*models}), None)
    if day is None:
        return ""
    return f"{'retired' if day <= str(today or date.today()) else 'will be retired'} on {day}"
