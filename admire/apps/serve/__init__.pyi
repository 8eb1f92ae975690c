from .app import create_app
from .guard import Limits
from .models import Models
from .server import make_server, run_server
from .service import Service

__all__ = ["Limits", "Models", "Service", "create_app", "make_server", "run_server"]
