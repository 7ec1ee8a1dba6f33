"""A backend for Annif; `python -m textsvm.apps.integrations.annif` is the command `annif` with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import annif.backend
import numpy as np
from annif.backend.backend import AnnifBackend
from annif.exception import NotInitializedException, NotSupportedException
from annif.suggestion import SubjectSuggestion, SuggestionBatch
from scipy.special import expit

from textsvm import MultilabelSVC, TrainedModel, load, save
from textsvm.arrays import Json


class TextsvmBackend(AnnifBackend):
    """A support vector machine for each subject; documents may have several.

    Parameters of a project are `kernel`, in the notation of the command line, and `C`.
    """

    name = "textsvm"
    DEFAULT_PARAMETERS: ClassVar[Json] = {"kernel": "auto", "C": 1.0}
    MODEL_FILE = "model.textsvm"
    _model: TrainedModel | None = None

    @property
    def _path(self) -> Path:
        return Path(self.datadir) / self.MODEL_FILE

    def initialize(self, parallel: bool = False) -> None:
        """Load the model once."""
        if self._model is None:
            if not self._path.exists():
                raise NotInitializedException(f"model {self._path} not found", backend_id=self.backend_id)
            self._model = load(self._path)

    def _train(self, corpus: Any, params: Json, jobs: int = 0) -> None:
        if corpus == "cached":
            raise NotSupportedException("the textsvm backend keeps no training data; name the documents")
        documents = [document for document in corpus.documents if document.subject_set]
        if not documents:
            raise NotSupportedException("cannot train a textsvm project without documents with subjects")
        model = MultilabelSVC(params["kernel"], C=float(params["C"]), thresholds="zero", n_jobs=jobs or None)
        subjects = [tuple(map(str, document.subject_set)) for document in documents]
        self._model = model.fit([document.text for document in documents], subjects).model_
        save(self._model, self._path)

    def _suggest_batch(self, documents: list[Any], params: Json) -> SuggestionBatch:
        assert self._model is not None  # Annif calls `initialize` first
        values = expit(2 * self._model.decision_function([document.text for document in documents]))
        limit, rows = int(params["limit"]), []
        for scores in values:
            best = np.argsort(-scores, kind="stable")[:limit]
            rows.append([SubjectSuggestion(int(self._model.rule.classes[i]), float(scores[i])) for i in best])
        return SuggestionBatch.from_sequence(rows, self.project.subjects)


annif.backend._backend_fns["textsvm"] = lambda: TextsvmBackend

if __name__ == "__main__":
    from annif.cli import cli

    cli()
