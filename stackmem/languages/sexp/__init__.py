"""S-expression workflows: a small Lisp whose atomic tasks are frames. The evaluator can also be used separately."""

from .errors import Budget, SexpEvaluationError, SexpSyntaxError, TaskError, UnboundSymbolError
from .evaluator import SexpEvaluator
from .values import SexpEnvironment

__all__ = [
    "Budget",
    "SexpEnvironment",
    "SexpEvaluationError",
    "SexpEvaluator",
    "SexpSyntaxError",
    "TaskError",
    "UnboundSymbolError",
]
