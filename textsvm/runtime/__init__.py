"""Devices, threads, compiled code, memory and files."""
