"""Vectors, compared by a kernel of vectors: what is read, and what a machine keeps of it (`Source`)."""

from __future__ import annotations

#: To be written: class VectorSource(Source), whose examples are `textsvm.features.vectors.Vectors`.
