"""Trained models as files for C, JavaScript, WebAssembly and onnxruntime.

`plain.plain_model` describes a model as plain arrays (`plain.PlainModel`), `binary.pack` writes it as a file
that C and JavaScript read without parsing, `onnx.onnx_of` a graph of ONNX, `files.export` writes all formats.
docs/export_format.md describes the file.
"""
