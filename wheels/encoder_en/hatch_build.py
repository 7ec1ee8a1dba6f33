"""Make the vectors before the wheel is built, if they are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent


class MakeVectors(BuildHookInterface):
    """Build hook of hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files of the wheel are collected."""
        if not (HERE / "textsvm_encoder_en" / "model.safetensors").exists():
            subprocess.run([sys.executable, str(HERE / "build.py")], check=True)
