"""Trained models as files for C, JavaScript, WebAssembly and onnxruntime (docs/export_format.md).

`plain` describes a model as plain arrays; `binary`, `onnx` and `files` write them in the formats.
"""
