"""netlab: a training-network analysis workbook.

>>> import netlab
>>> isinstance(netlab.__version__, str)
True
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
