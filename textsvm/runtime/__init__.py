"""Devices, threads, compiled code, memory, files and workers."""
