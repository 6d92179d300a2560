"""Every error that a user can meet.

    LuthierError
    ├── ModelError             the ONNX file cannot be read, is invalid, or is too large
    │   └── UnsupportedModel   valid ONNX that Luthier does not read: an element type, an operator set
    │       ├── NotStatic        no form of it can be compiled before it runs
    │       └── UnsupportedOperator  an operator that Luthier has no lowering for
    ├── InputError             an argument, option or input array is wrong
    ├── TargetError            unknown Target, or one that this machine cannot run
    ├── ScheduleError          a Step that is not legal where it is applied
    ├── CompileError           the code generator could not make code (a bug, or a broken toolchain)
    ├── DatabaseError          the tuning log cannot be opened, read or written
    ├── NotTuned               a record was required and the tuning log has none
    ├── MeasureError           measuring as a whole broke (one bad candidate is a value, not an error)
    └── ServiceError           the service refused, or cannot be reached

Each message is one sentence that ends with what to do.
"""


class LuthierError(Exception):
    """Base of all errors raised on purpose."""


class ModelError(LuthierError):
    """The model cannot be read, is not valid ONNX, or passes a limit."""


class UnsupportedModel(ModelError):
    """Valid ONNX that Luthier does not read."""


class NotStatic(UnsupportedModel):
    """A model without a form that is compiled once and for all: sizes depend on values, or inputs are no tensors."""

    def __init__(
        self,
        why: str,
        remedy: str = "run it with luthier.compile in Python, which compiles such a model as it runs; "
        "it can be neither saved nor tuned yet",
    ) -> None:
        """`why`: what has no such form."""
        super().__init__(f"{why}; {remedy}")
        self.why = why


class UnsupportedOperator(UnsupportedModel):
    """Valid ONNX that Luthier has no lowering for."""

    def __init__(self, operator: str, opset: int, node: str, detail: str = "") -> None:
        """Name what is missing; `detail` says which attribute or type, when the operator itself is known."""
        self.operator, self.opset, self.node = operator, opset, node
        why = f" ({detail})" if detail else ""
        super().__init__(
            f"unsupported operator {operator} of opset {opset} at node {node!r}{why}; "
            "rewrite that node with supported operators, or ask for it with the model attached"
        )


class InputError(LuthierError):
    """An argument, an option or an input array is wrong."""


class TargetError(LuthierError):
    """An unknown Target, or one that this machine cannot run."""


class ScheduleError(LuthierError):
    """A Step is not legal where it was applied."""


class CompileError(LuthierError):
    """No machine code could be made."""


class DatabaseError(LuthierError):
    """The tuning log cannot be opened, read or written."""


class NotTuned(LuthierError):
    """A record was required and the tuning log has none."""


class MeasureError(LuthierError):
    """Measuring as a whole broke; a single bad candidate is a MeasureFailed value instead."""


class ServiceError(LuthierError):
    """The service refused a request, or cannot be reached."""
