from .depth import in_metres

__all__ = ["in_metres"]
