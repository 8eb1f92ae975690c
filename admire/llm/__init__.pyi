from .chat import ChatModel, Image, Question, Reply, Unanswered, Usage, ask_each, evict
from .families import open_llm
from .retired import retired
from .session import BoundModel, Session

__all__ = [
    "BoundModel",
    "ChatModel",
    "Image",
    "Question",
    "Reply",
    "Session",
    "Unanswered",
    "Usage",
    "ask_each",
    "evict",
    "open_llm",
    "retired",
]
