"""evensong: group communication with extended virtual synchrony."""

__all__ = ["__version__"]

__version__ = "0.1.0"
