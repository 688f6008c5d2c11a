"""S-expression workflows: a small Lisp whose atomic tasks are frames; the evaluator also stands alone."""

from .budget import Budget
from .environment import SexpEnvironment
from .errors import SexpEvaluationError, SexpSyntaxError, TaskError, UnboundSymbolError
from .evaluator import SexpEvaluator

__all__ = [
    "Budget",
    "SexpEnvironment",
    "SexpEvaluationError",
    "SexpEvaluator",
    "SexpSyntaxError",
    "TaskError",
    "UnboundSymbolError",
]
