from .gallery import Cards
from .thumbnails import thumbnail
from .write import check_report, write_report

__all__ = ["Cards", "check_report", "thumbnail", "write_report"]
