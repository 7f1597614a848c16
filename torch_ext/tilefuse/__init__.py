"""TileFuse: fuses PyTorch graphs into generated kernels.

``torch.compile(model, backend="tilefuse")`` is the way in and needs no import of this package. ``explain`` says what
was fused, what was not, and why.
"""

from tilefuse.backend import backend
from tilefuse.errors import UserError
from tilefuse.explain import Report, explain

__all__ = ["Report", "UserError", "backend", "explain"]
__version__ = "0.1.0"
