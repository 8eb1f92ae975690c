from .gallery import gallery
from .thumbnails import thumbnail
from .write import check_report, write_report

__all__ = ["check_report", "gallery", "thumbnail", "write_report"]
