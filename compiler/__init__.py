"""ONNX to machine code. Knows nothing of tuning, Ray, SQL or HTTP."""
