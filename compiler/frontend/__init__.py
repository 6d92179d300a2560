"""ONNX to Graph: read and check the model, then a file per operator family."""

from compiler.frontend.importer import import_model

__all__ = ["import_model"]
