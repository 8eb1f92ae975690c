from .chat import ChatModel, Image, Question, Reply, Usage
from .conversation import Conversation, Unusable, converse
from .families import open_llm
from .session import BoundModel, Session

__all__ = [
    "BoundModel",
    "ChatModel",
    "Conversation",
    "Image",
    "Question",
    "Reply",
    "Session",
    "Unusable",
    "Usage",
    "converse",
    "open_llm",
]
