"""The process of `textsvm serve` that loads models and predicts: frames on stdin, answers on stdout.

All requests that wait for the same model are predicted by the same call: a call takes milliseconds, and each
further short text some microseconds. A call takes not more symbols than it predicts in about `GOAL` seconds.
Odd calls take a few texts of each request in turn, so requests with many or long texts delay short ones by
little more. Even calls take the oldest requests, so of too many requests some are answered in time.
Predictions do not depend on the texts that they are computed with.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

from textsvm import load
from textsvm.apps.serve import CANCEL, DESCRIBE, FRAME, LOAD, PREDICT, PROGRESS_NUMBER, frames
from textsvm.arrays import AnyArray, Floats, Json
from textsvm.errors import InputError, one_line
from textsvm.evaluation import judge
from textsvm.evaluation.drift import LEAST_MARGIN, Drift
from textsvm.kernels.spelling import spell
from textsvm.model.rules import NumberRule, margins

#: Seconds that a call should take.
GOAL = 0.02
#: Maximum texts of a call.
MOST_TEXTS = 256
#: Maximum symbols of a call.
MOST_SYMBOLS = 1 << 15
#: Maximum texts of a request in a call while others wait.
TURN = 16
#: Number of texts that are compared with the training texts in each period.
DRIFT_TEXTS = 32
#: Length of the period in seconds.
DRIFT_SECONDS = 0.25
#: Names of values of a request.
OPTIONS = {"model", "text", "texts", "top", "probabilities"}
#: Short and long texts that prepare a model: functions that the first requests need are then compiled.
PREPARING = ["ready", "caf\u00e9 \u4e2d", *(f"Ready {n}! " * 400 + "\u00e9" * (n % 2) for n in range(20))]
#: The same for combining characters and more than 256 different characters.
CHARACTERS = ["e\u0301" + "".join(map(chr, range(0x4E00, 0x4F40))) + " ready" * 2, "ready", "caf\u00e9"]
#: For models of DNA or proteins, which refuse other letters.
SEQUENCES = ["acgt", "gattaca", *("acgt" * 400 + "ga" * n for n in range(20))]

#: A text, or a row of a table.
Example: TypeAlias = str | dict[str, Any]
#: Number of the request, status, body.
Answer: TypeAlias = tuple[int, int, bytes]
#: Classes, predictions, decision values and probabilities.
Predictions: TypeAlias = tuple[AnyArray | None, AnyArray, Floats, Floats | None]


class Refusal(Exception):
    """A request that is answered by a status and a sentence."""

    def answer(self, number: int) -> Answer:
        """Answer to the request of this number."""
        status, message = self.args
        return number, status, json.dumps({"error": one_line(message)}).encode()


class ServedModel:
    """A loaded model, its counters, and the number of symbols of a call."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.model = name, load(path).on("cpu")
        kernel, info, rule = self.model.kernel, self.model.info, self.model.rule
        if kernel is None or kernel.structure.reads_vectors:
            raise InputError(f"{path} is not a model of texts, which `textsvm serve` needs")
        self.kernel = spell(kernel)
        columns = [view.column for view in kernel.structure.views if view.column is not None]
        #: Columns of a model of a table, and whether they hold texts.
        self.columns = {name: True for name in columns if isinstance(name, str)}
        self.columns |= {part: False for name in columns if isinstance(name, tuple) for part in name}
        self.classes: AnyArray | None = rule.classes
        self.digest = self.model.record.digest
        self.calibrated = self.model.probabilistic
        self.has_labels = not isinstance(rule, NumberRule)
        self.positive = positive if isinstance(positive := info.get("positive"), str) else None
        self.row_of_empty_text = judge.row_without_text(self.model, "the text is empty")
        self.counts = Counter({"texts": 0, "low_margins": 0, "foreign_texts": 0})
        self.labels: Counter[str] = Counter()
        self.room, self._next_drift = 1 << 12, 0.0
        for texts in (PREPARING, SEQUENCES):
            with suppress(InputError):  # the model refuses these letters
                self.predict(self.examples_of(texts[:2]))
                self.predict(self.examples_of(texts))
                Drift(self.model, None).add_texts(self.examples_of(texts[:2]))
                self.predict(self.examples_of(CHARACTERS))
                break
        self.drift = Drift(self.model, info.get("drift"))

    def examples_of(self, texts: list[str]) -> list[Any]:
        """Examples with a text in each column of texts, and 0 elsewhere."""
        if not self.columns:
            return texts
        return [{name: text if kind else 0 for name, kind in self.columns.items()} for text in texts]

    def read(self, texts: Any) -> list[Example]:
        """Texts of a request, or rows with the columns of the model; raises Refusal."""
        if not isinstance(texts, list) or not all(map(self._is_example, texts)):
            names = f"an object with the columns {', '.join(self.columns)}", "such objects"
            kind, kinds = names if self.columns else ("a string", "strings")
            raise Refusal(400, f'"text" must be {kind}, and "texts" a list of {kinds}')
        return [{name: text[name] for name in self.columns} for text in texts] if self.columns else texts

    def _is_example(self, text: Any) -> bool:
        if not self.columns:
            return isinstance(text, str)
        return isinstance(text, dict) and all(
            name in text and isinstance(text[name], str) == kind for name, kind in self.columns.items()
        )

    def predict(self, texts: list[Example]) -> Predictions:
        """Classes, predictions, decision values and probabilities."""
        return judge.predict(self.model, texts, [], self.positive, None)

    def count(self, texts: list[Example], predictions: Predictions, seconds: float) -> None:
        """Count predictions and signs of drift, and fit the size of calls to the seconds of this one."""
        classes, predicted, decision, _ = predictions
        self.counts["texts"] += len(texts)
        if classes is not None and predicted.ndim == 1:
            self.labels.update(map(str, predicted.tolist()))
            least = LEAST_MARGIN * (self.drift.expected["margin"] or 0.0)
            self.counts["low_margins"] += int((margins(decision) < least).sum())
        if (now := time.monotonic()) > self._next_drift:
            self._next_drift = now + DRIFT_SECONDS
            self.counts["foreign_texts"] += len(self.drift.add_texts(texts[:DRIFT_TEXTS]))
        symbols = sum(map(_size, texts))
        if seconds > 2 * GOAL:
            self.room = max(1, int(symbols * GOAL / seconds))
        elif seconds < GOAL and 2 * symbols > self.room:
            self.room = min(2 * self.room, MOST_SYMBOLS)

    def as_dict(self) -> Json:
        """Facts and counters."""
        drift = {f"drift_{name}": number for name, number in self.drift.totals().items()}
        return {
            "name": self.name, "estimator": self.model.estimator_name, "kernel": self.kernel,
            "classes": None if self.classes is None else list(map(str, self.classes)),
            **({"columns": list(self.columns)} if self.columns else {}),
            "probabilities": self.calibrated, "digest": self.digest,
            "training": self.drift.expected, "labels": self.labels, "counts": {**self.counts, **drift},
        }  # fmt: skip


@dataclass
class TextRequest:
    """A request to predict."""

    number: int
    model: ServedModel
    all_texts: list[Example]
    single: bool
    top: int | None
    probabilities: bool
    taken: int = 0  #: Texts that were predicted, or are in the current call
    rows: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = [text for text in self.all_texts if not _is_empty(text)]  #: Empty texts have no label

    def add(self, predictions: Predictions, part: slice) -> None:
        """Add the rows of a part of the texts of a call."""
        classes, predicted, decision, probability = predictions
        predicted, decision = predicted[part], decision[part]
        probability = None if probability is None else probability[part]
        shown = probability if self.probabilities else None
        rows = judge.rows_of(classes, predicted, decision, shown, self.model.positive)
        if self.top is not None:
            rows = judge.with_top(rows, classes, decision, probability, self.top)
        self.rows += rows

    def answer(self) -> Answer:
        """Answer with all rows, also of empty texts."""
        predicted, empty = iter(self.rows), self.model.row_of_empty_text
        rows = [empty if _is_empty(text) else next(predicted) for text in self.all_texts]
        value = rows[0] if self.single else {"predictions": rows}
        return self.number, 200, json.dumps(value).encode()


class Worker:
    """Models, and requests that wait for them."""

    def __init__(self, send: Callable[[Sequence[Answer]], None]) -> None:
        self._send = send
        self.models: dict[str, ServedModel | None] = {}  #: None until it is loaded
        self.jobs: list[TextRequest] = []  #: Oldest first
        self._in_turn = True  #: Whether the last call took texts of the requests in turn
        self.max_texts = self.max_characters = 0

    def run(self) -> None:
        """Answer frames until the end of stdin.

        They are read between calls: a thread that reads would delay the calls.
        """
        received = bytearray()
        while True:
            if not self.jobs or _has_input():
                if not (data := os.read(0, 1 << 20)):
                    return
                received += data
                for number, kind, body in frames(received):
                    self._receive(number, kind, body)
            if self.jobs:
                self._send(self._call() or [(PROGRESS_NUMBER, 0, b"")])

    def _receive(self, number: int, kind: int, body: bytes) -> None:
        if kind == PREDICT:
            try:
                self.jobs.append(job := self._read(number, body))
            except Refusal as refusal:
                self._send([refusal.answer(number)])
            else:
                if not job.texts:
                    self._send([self.jobs.pop().answer()])
        elif kind == LOAD:  # the old models answer until the new are loaded
            paths = self._configure(**json.loads(body))
            threading.Thread(target=self._load, args=(number, paths), daemon=True).start()
        elif kind == DESCRIBE:
            models = [model.as_dict() for model in self.models.values() if model]
            self._send([(number, 200, json.dumps(models).encode())])
        elif kind == CANCEL:
            self.jobs = [job for job in self.jobs if job.number != number]

    def _configure(
        self, models: dict[str, str], names: list[str], max_texts: int, max_characters: int
    ) -> dict[str, str]:
        """Set the limits and the names of all models; paths of the models to load."""
        self.max_texts, self.max_characters = max_texts, max_characters
        for name in models:
            self.models.setdefault(name, None)
        return {name: models[name] for name in names}

    def _load(self, number: int, paths: dict[str, str]) -> None:
        """Load models; a file that cannot be read leaves the old model."""
        failures = {}
        for name, path in paths.items():
            try:
                self.models[name] = ServedModel(name, path)
            except (InputError, OSError, MemoryError) as error:
                failures[name] = one_line(str(error) or "out of main memory")
            except Exception as error:  # the server waits for an answer
                traceback.print_exception(error)
                failures[name] = one_line(f"{path} cannot be loaded: {type(error).__name__}: {error}")
        self._send([(number, 200, json.dumps(failures).encode())])

    def _read(self, number: int, body: bytes) -> TextRequest:
        try:
            request = json.loads(body.decode())
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not UTF-8 from byte {error.start} on") from None
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is not JSON: {one_line(str(error), 100)}") from None
        if isinstance(request, dict):
            with suppress(Refusal):  # a row alone
                if (
                    columns := self._model(request.get("model")).columns
                ) and request.keys() >= columns.keys():
                    row = {name: request.pop(name) for name in columns}
                    request["text"] = row
        if not isinstance(request, dict) or ("text" in request) == ("texts" in request):
            raise Refusal(400, 'give an object with either "text" or "texts", as in {"text": "win cash"}')
        if unknown := sorted(request.keys() - OPTIONS):
            raise Refusal(400, f"there is no option {unknown[0]!r}; there are {', '.join(sorted(OPTIONS))}")
        model, single = self._model(request.get("model")), "text" in request
        texts = model.read([request["text"]] if single else request["texts"])
        if len(texts) > self.max_texts:
            raise Refusal(
                413, f"{len(texts):,} texts are more than {self.max_texts:,}; send several requests"
            )
        if (longest := max(map(_size, texts), default=0)) > self.max_characters:
            raise Refusal(
                413, f"a text has {longest:,} characters, and at most {self.max_characters:,} may be sent"
            )
        top = request.get("top")
        if top is not None and not (type(top) is int and top > 0 and model.has_labels):
            raise Refusal(400, '"top" must be a whole number above 0, and the model must have labels')
        probabilities = request.get("probabilities", model.calibrated)
        if not isinstance(probabilities, bool) or (probabilities and not model.calibrated):
            raise Refusal(400, '"probabilities" must be true or false, and true only of a calibrated model')
        return TextRequest(number, model, texts, single, top, probabilities)

    def _model(self, name: object) -> ServedModel:
        names = list(self.models)
        if name is None and len(names) > 1:
            raise Refusal(400, f'give "model", one of {", ".join(names)}')
        if name is not None and (not isinstance(name, str) or name not in names):
            raise Refusal(404, f"there is no model {str(name)[:100]!r}; there are {', '.join(names)}")
        model = self.models[name := names[0] if name is None else name]
        if model is None:
            raise Refusal(503, f"the model {name!r} cannot be loaded; stderr of the server has the reason")
        return model

    def _call(self) -> Sequence[Answer]:
        """Predict texts of requests for the same model; answers of complete requests."""
        parts, texts = list[tuple[TextRequest, slice]](), list[Example]()
        self._in_turn = not self._in_turn
        waiting = sorted(self.jobs, key=lambda job: job.taken) if self._in_turn else self.jobs
        model = waiting[0].model
        jobs, room = [job for job in waiting if job.model is model], model.room
        for job, most in [(job, TURN) for job in jobs if self._in_turn] + [(job, MOST_TEXTS) for job in jobs]:
            begin = len(texts)
            for text in job.texts[job.taken : job.taken + most]:
                if texts and (_size(text) > room or len(texts) == MOST_TEXTS):
                    break
                texts.append(text)
                room -= _size(text)
            job.taken += len(texts) - begin
            if len(texts) > begin:
                parts.append((job, slice(begin, len(texts))))
        answers = self._answers(model, parts, texts)
        self.jobs = [job for job in self.jobs if job.number not in answers]
        return list(answers.values())

    def _answers(
        self, model: ServedModel, parts: list[tuple[TextRequest, slice]], texts: list[Example]
    ) -> dict[int, Answer]:
        """Predict parts of requests together, and each alone if that fails; answers of complete requests."""
        answers, clock, processor = dict[int, Answer](), time.perf_counter(), time.process_time()
        try:
            predictions = model.predict(texts)
        except Exception as error:
            if len(parts) == 1:
                return {parts[0][0].number: _refusal(error).answer(parts[0][0].number)}
            for job, part in parts:
                alone = texts[part]
                answers = self._answers(model, [(job, slice(0, len(alone)))], alone) | answers
            return answers
        # Smaller calls would not help against other programs that use the processors.
        seconds = min(time.perf_counter() - clock, time.process_time() - processor)
        model.count(texts, predictions, seconds)
        for job, part in parts:
            job.add(predictions, part)
            if len(job.rows) == len(job.texts):
                answers[job.number] = job.answer()
        return answers


def _size(text: Example) -> int:
    """Number of symbols."""
    return len(text) if isinstance(text, str) else sum(len(x) for x in text.values() if isinstance(x, str))


def _is_empty(text: Example) -> bool:
    """Whether a text, or all texts of a row, are empty; rows of numbers alone are not."""
    texts = [text] if isinstance(text, str) else [x for x in text.values() if isinstance(x, str)]
    return bool(texts) and not any(map(str.strip, texts))


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, InputError):
        return Refusal(400, str(error))
    if isinstance(error, MemoryError):
        return Refusal(503, "out of main memory; send fewer or shorter texts")
    traceback.print_exception(error)
    return Refusal(500, "the prediction failed; stderr of the server has the error")


def _has_input() -> bool:
    """Whether stdin can be read without waiting; Windows cannot tell, so requests wait for earlier ones."""
    return os.name == "posix" and bool(select.select([0], [], [], 0)[0])


def main() -> None:
    """Answer the frames of stdin until its end; signals are for the server."""
    for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGINT)}:
        signal.signal(number, signal.SIG_IGN)
    answers, lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(2, 1)  # prints go to stderr
    import_module("numba")  # without it the first predictions use functions that are slow for many texts

    def send(ready: Sequence[Answer]) -> None:
        with lock:
            answers.writelines(FRAME.pack(len(body), number, status) + body for number, status, body in ready)
            answers.flush()

    Worker(send).run()
