from .chat import ChatModel, Image, Question, Reply, Usage
from .conversation import Conversation, Unusable, converse
from .session import BoundModel, Session, open_llm

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
