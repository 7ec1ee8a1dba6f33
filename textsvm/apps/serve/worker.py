"""The process of `textsvm serve` that loads models and predicts: frames on stdin, answers on stdout.

Requests that wait for the same model are predicted in one call: a call takes milliseconds, and each further
short text a small part of that. The symbols of a call are limited to those that it predicts in about `GOAL`
seconds. They are counted in the normal form, which can have 18 symbols for a character. Every second call
takes a few texts of each request in turn, so that requests with many texts hardly delay requests with few.
Other calls fill half of their symbols with new requests and the rest with the oldest. So under overload some
requests are still answered in time. A request with a text that is too long for a call goes back to the
server, which sends it, like large bodies, to a second process of lower priority (`apart`); after a time such
requests are tried again. The prediction of a text does not depend on the other texts of its call.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import threading
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import TypeAlias

import numpy as np

from textsvm import load
from textsvm.apps.serve import APART, CANCEL, DESCRIBE, FRAME, LOAD, PREDICT, PROGRESS_NUMBER, frames
from textsvm.arrays import AnyArray, Floats, Json
from textsvm.errors import DamagedModel, InputError, one_line
from textsvm.evaluation import judge
from textsvm.evaluation.drift import LEAST_MARGIN, Drift
from textsvm.kernels.spelling import spell
from textsvm.model.rules import NumberRule, margins
from textsvm.runtime.plain_json import error_body, unambiguous_json

GOAL = 0.01  #: Seconds that a call should take
FIRST_ROOM = 1 << 12  #: Maximum symbols of the first call of a model
TRIAL_SHARE = 0.05  #: Share of the time that requests of a model with too long texts may take
MOST_TEXTS = 256  #: Maximum texts of a call
MOST_SYMBOLS = 1 << 15  #: Maximum symbols of a call
TURN = 16  #: Maximum texts of a request in a call while others wait
MOST_ANSWER = 1 << 22  #: Maximum bytes of an answer, approximately
#: Maximum bytes of all answers that are not complete; above it only small answers are accepted.
MOST_ANSWERS = 1 << 24
SMALL_ANSWER = 1 << 15  #: Maximum bytes of a small answer
DECOMPOSED = 0x30000  #: Code points from here on are their own normal form
#: Number of code points in the normal form NFKC of each code point.
NFKC_LENGTH = np.array([len(unicodedata.normalize("NFKC", chr(x))) for x in range(DECOMPOSED)], np.uint8)
#: Strings, and beginnings of other values, in JSON; a large body may have `MOST_VALUES` of them.
VALUES, MOST_VALUES = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL), 50_000
NICENESS = 5  #: Lower priority of the process that is `apart`
DRIFT_TEXTS = 32  #: Number of texts that are compared with the training texts in each period
DRIFT_SECONDS = 0.25  #: Length of the period in seconds
OPTIONS = {"model", "text", "texts", "top", "probabilities"}  #: Names of values of a request
#: Short and long texts that are predicted after loading, to compile functions before the first request.
PREPARING = ["ready", "caf\u00e9 \u4e2d", *(f"Ready {n}! " * 400 + "\u00e9" * (n % 2) for n in range(20))]
#: Further such texts, with combining characters and more than 256 different characters.
CHARACTERS = ["e\u0301" + "".join(map(chr, range(0x4E00, 0x4F40))) + " ready" * 2, "ready", "caf\u00e9"]
#: Such texts for models of DNA or proteins, which refuse other letters.
SEQUENCES = ["acgt", "gattaca", *("acgt" * 400 + "ga" * n for n in range(20))]

Example: TypeAlias = str | Json  #: A text, or a row of a table
Answer: TypeAlias = tuple[int, int, bytes]  #: Number of the request, status, body
#: Classes, predictions, decision values and probabilities.
Predictions: TypeAlias = tuple[AnyArray | None, AnyArray, Floats, Floats | None]


class Refusal(Exception):
    """A request that is answered by a status and a sentence."""

    def answer(self, number: int) -> Answer:
        """Answer to the request of this number."""
        status, message = self.args
        return number, status, error_body(message)


class ServedModel:
    """A loaded model, its counters, and its `room`: the maximum symbols of a call, as `measured` last."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.model = name, load(path).on("cpu")
        kernel, info, rule = self.model.kernel, self.model.info, self.model.rule
        views = () if kernel is None else kernel.structure.views
        if kernel is None or all(view.tokens == "numbers" for view in views):
            raise InputError(f"{path} is not a model of texts, which `textsvm serve` needs")
        self.kernel = spell(kernel)
        #: Columns of a model of a table, and whether they hold texts.
        self.columns = {name: not view.of_numbers for view in views for name in view.columns}
        texts, numbers = _recorded_columns(info, "text"), _recorded_columns(info, "numbers")
        #: Columns that were one text in the training (`train --text title,body`)
        self.joined = texts if len(texts) > 1 and not self.columns else []
        self.columns |= dict.fromkeys(self.joined, True)
        self.unused = {*texts, *numbers}.difference(self.columns)  #: Columns of the training, of weight 0
        self.classes: AnyArray | None = rule.classes
        self.digest = self.model.record.digest
        self.calibrated = self.model.probabilities_by_default
        self.has_labels = not isinstance(rule, NumberRule)
        self.positive = positive if isinstance(positive := info.get("positive"), str) else None
        if rule.classes is None and self.has_labels and self.positive is None:
            raise InputError(
                f"{path} is a one-class model without the name of its class; "
                'save it with info={"positive": NAME}'
            )
        self.row_of_empty_text = judge.row_without_text(self.model, "the text is empty")
        self.counts = Counter({"texts": 0, "low_margins": 0, "foreign_texts": 0})
        self.labels: Counter[str] = Counter()
        names = [] if rule.classes is None else list(map(str, rule.classes))
        self.n_classes = max(2, len(names))
        #: Estimated bytes of the answer: for each of the best labels (`entry_bytes`), and for a text
        self.entry_bytes = 65 + 25 * self.calibrated + max(map(len, map(json.dumps, names)), default=0)
        self.row_bytes = (1 + self.calibrated) * (self.entry_bytes + 24 * self.n_classes)
        if self.n_classes > 2:
            self.row_bytes += (1 + self.calibrated) * len(json.dumps(names))
        self.room, self._next_drift, self.measured = FIRST_ROOM, 0.0, time.monotonic()
        self.drift = Drift(self.model, info.get("drift"))
        for texts in (PREPARING, SEQUENCES):
            with suppress(InputError):  # the model refuses these letters
                examples = self._examples_of(texts)
                self.predict(examples[:2])
                self.predict(examples)
                Drift(self.model, None, self.drift.support).add_texts(examples[:2])
                self.predict(self._examples_of(CHARACTERS))
                break

    def _examples_of(self, texts: list[str]) -> list[Example]:
        """Examples with a text in each column of texts, and 0 elsewhere."""
        if self.joined or not self.columns:
            return [*texts]
        return [{name: text if kind else 0 for name, kind in self.columns.items()} for text in texts]

    def read(self, texts: object) -> list[Example]:
        """Texts of a request, or rows with the columns of the model; raises Refusal."""
        if isinstance(texts, list) and all(map(self._is_example, texts)):
            joined = self.joined
            return ["\n".join(row[name] for name in joined) for row in texts] if joined else texts
        singular, plural = "a string", "strings"
        if self.columns:
            singular = f"an object with the columns {', '.join(self.columns)}"
            plural = "such objects"
        raise Refusal(400, f'"text" must be {singular}, and "texts" a list of {plural}')

    def _is_example(self, text: object) -> bool:
        """Whether a value has the type of an example; raises Refusal for wrong columns."""
        if not self.columns or not isinstance(text, dict):
            return isinstance(text, str) and not self.columns
        for name in self.columns:
            if name not in text:
                raise Refusal(400, f"the column {name} is missing")
        for name in sorted(text.keys() - self.columns.keys() - self.unused):
            raise Refusal(400, f"there is no column {name!r}; there are {', '.join(self.columns)}")
        for name, is_text in self.columns.items():
            value = text[name]
            if not isinstance(value, str if is_text else int | float) or isinstance(value, bool):
                kind = "a string" if is_text else "a number"
                raise Refusal(400, f"column {name!r} must hold {kind}, not {json.dumps(value)[:60]}")
        return True

    def predict(self, texts: list[Example]) -> Predictions:
        """Classes, predictions, decision values and probabilities."""
        return judge.predict(self.model, texts, [], self.positive, None)

    def count(self, texts: list[Example], predictions: Predictions) -> None:
        """Count predictions and signs of drift."""
        classes, predicted, decision, _ = predictions
        self.counts["texts"] += len(texts)
        if classes is not None and predicted.ndim == 1:
            self.labels.update(map(str, predicted.tolist()))
            least = LEAST_MARGIN * (self.drift.expected["margin"] or 0.0)
            self.counts["low_margins"] += int((margins(decision) < least).sum())
        small = sum(len(text_of(text)) for text in texts) <= MOST_SYMBOLS
        if small and (now := time.monotonic()) > self._next_drift:
            self._next_drift = now + DRIFT_SECONDS
            self.counts["foreign_texts"] += len(self.drift.add_texts(texts[:DRIFT_TEXTS]))

    def fit_room(self, symbols: int, seconds: float) -> None:
        """Adapt `room` to the seconds that a call with this number of symbols took."""
        if seconds > 1.5 * GOAL:
            self.measured, self.room = time.monotonic(), max(1, int(symbols * GOAL / seconds))
        elif 2 * symbols > self.room:
            larger = 2 * self.room if seconds < GOAL else self.room
            self.measured, self.room = time.monotonic(), min(max(larger, symbols), MOST_SYMBOLS)

    def as_dict(self) -> Json:
        """Facts and counters."""
        drift = {f"drift_{name}": number for name, number in self.drift.counts.items()}
        return {
            "name": self.name, "estimator": self.model.estimator_name, "kernel": self.kernel,
            "classes": None if self.classes is None else list(map(str, self.classes)),
            **({"columns": list(self.columns)} if self.columns else {}),
            "probabilities": self.calibrated, "digest": self.digest,
            "training": self.drift.expected, "labels": self.labels, "counts": {**self.counts, **drift},
        }  # fmt: skip


def _recorded_columns(info: Json, role: str) -> list[str]:
    """Names of the columns of a role that the training read, by the record of `train`."""
    reading = info.get("reading")
    value = reading.get(role) if isinstance(reading, dict) else None
    parts = [value] if isinstance(value, str) else value or []
    names = [name.strip() for part in parts if isinstance(part, str) for name in part.split(",")]
    return [name for name in names if not name.isdecimal()]


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
    rows: list[str] = field(default_factory=list)  #: JSON

    def __post_init__(self) -> None:
        self.texts = [text for text in self.all_texts if text_of(text).strip()]  #: Empty texts have no label
        self.sizes = [symbols_of(text_of(text)) for text in self.texts]  #: Symbols of the texts
        entries = 1 + min(self.top or 0, self.model.n_classes)  # the label, and the best labels
        row_bytes = entries * self.model.entry_bytes if self.top else self.model.row_bytes
        self.answer_bytes = len(self.all_texts) * row_bytes  #: Estimate

    def rows_of(self, predictions: Predictions, part: slice) -> list[str]:
        """Rows of a part of the texts of a call, as JSON."""
        classes, predicted, decision, probability = predictions
        predicted, decision = predicted[part], decision[part]
        probability = None if probability is None else probability[part]
        shown = probability if self.probabilities else None
        rows = judge.rows_of(classes, predicted, decision, shown, self.model.positive)
        if self.top is not None:
            rows = judge.with_top(rows, classes, decision, probability, self.top)
        return list(map(json.dumps, rows))

    def answer(self) -> Answer:
        """Answer with all rows, also of empty texts."""
        predicted, empty = iter(self.rows), json.dumps(self.model.row_of_empty_text)
        try:
            rows = [next(predicted) if text_of(text).strip() else empty for text in self.all_texts]
            answer = rows[0] if self.single else f'{{"predictions": [{", ".join(rows)}]}}'
            return self.number, 200, answer.encode()
        except MemoryError as error:
            return _refusal(error).answer(self.number)


def text_of(example: Example) -> str:
    """A text, or all texts of a row."""
    return example if isinstance(example, str) else "".join(x for x in example.values() if isinstance(x, str))


def symbols_of(text: str) -> int:
    """Number of code points of a text, each counted as the code points of its own normal form."""
    if text.isascii():
        return len(text)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return int(NFKC_LENGTH[np.minimum(points, DECOMPOSED - 1)].sum(dtype=np.int64))


class Worker:
    """Models, whose `room` is adapted by calls, and requests; `apart` also takes those with long texts."""

    def __init__(self, send: Callable[[Sequence[Answer]], None], apart: bool = False) -> None:
        self._send, self._apart = send, apart
        self.models: dict[str, ServedModel | None] = {}  #: None until it is loaded
        self.jobs: list[TextRequest] = []  #: Requests that wait, oldest first
        self._in_turn = True  #: Whether the last call took texts of the requests in turn
        self._loading = False  #: Whether a thread loads models, which takes processor seconds of this process
        self.max_texts, self.max_characters = 0, 0

    def run(self) -> None:
        """Answer frames until the end of stdin.

        They are read between calls: a thread that reads would delay the calls.
        """
        received = bytearray()
        while True:
            until = time.perf_counter() + GOAL / 2
            while not self.jobs or (_has_input() and time.perf_counter() < until):
                if not (data := os.read(0, 1 << 20)):
                    return
                received += data
                for number, kind, body in frames(received):
                    self._receive(number, kind, body)
            self._send(self.call() or [(PROGRESS_NUMBER, 0, b"")])

    def call(self) -> list[Answer]:
        """Predict texts of requests for the same model; answers of complete requests."""
        parts, texts, symbols = list[tuple[TextRequest, slice]](), list[Example](), 0
        self._in_turn = not self._in_turn
        waiting = sorted(self.jobs, key=lambda job: job.taken)
        model = (waiting if self._in_turn else self.jobs)[0].model
        turns = [(job, TURN) for job in waiting if job.model is model]
        rest = [(job, MOST_TEXTS) for job in self.jobs if job.model is model]
        first = (turns, 1.0) if self._in_turn else ([(job, TURN) for job, _ in turns if not job.taken], 0.5)
        for group, share in (first, (rest, 1.0)):
            for job, most in group:
                begin = len(texts)
                for i in range(job.taken, min(job.taken + most, len(job.texts))):
                    size = symbols + job.sizes[i]
                    if texts and (size > share * model.room or len(texts) >= share * MOST_TEXTS):
                        break
                    texts.append(job.texts[i])
                    symbols = size
                job.taken += len(texts) - begin
                if len(texts) > begin:
                    parts.append((job, slice(begin, len(texts))))
        answers = self._answers(parts, texts, symbols)
        self.jobs = [job for job in self.jobs if job.number not in answers]
        return list(answers.values())

    def _answers(
        self, parts: list[tuple[TextRequest, slice]], texts: list[Example], symbols: int
    ) -> dict[int, Answer]:
        """Predict parts of requests together, and each alone if that fails; answers of complete requests."""
        model, answers = parts[0][0].model, dict[int, Answer]()
        since, processor, loading = time.perf_counter(), time.process_time(), self._loading
        try:
            predictions = model.predict(texts)
            rows = [job.rows_of(predictions, part) for job, part in parts]
        except Exception as error:
            if len(parts) == 1:
                number, changed = parts[0][0].number, isinstance(error, DamagedModel)
                lost = {PROGRESS_NUMBER: (PROGRESS_NUMBER, 503, model.name.encode())} if changed else {}
                return lost | {number: _refusal(error).answer(number)}
            for job, part in parts:
                alone = texts[part]
                symbols = sum(symbols_of(text_of(text)) for text in alone)
                answers = self._answers([(job, slice(0, len(alone)))], alone, symbols) | answers
            return answers
        finally:
            seconds = time.perf_counter() - since
        with suppress(MemoryError):  # counters are not worth the answers
            model.count(texts, predictions)
        if not (loading or self._loading):
            # Smaller calls would not help against other programs that use the processors.
            model.fit_room(symbols, min(seconds, time.process_time() - processor))
        for (job, _), new in zip(parts, rows, strict=True):
            job.rows += new
        for job, _ in parts:
            if len(job.rows) == len(job.texts):
                answers[job.number] = job.answer()
        return answers

    def _receive(self, number: int, kind: int, body: bytes) -> None:
        if kind == PREDICT:
            self._start(number, body)
        elif kind == LOAD:  # the old models answer until the new are loaded
            threading.Thread(target=self._load, args=(number,), kwargs=json.loads(body), daemon=True).start()
        elif kind == DESCRIBE:
            models = [model.as_dict() for model in self.models.values() if model]
            self._send([(number, 200, json.dumps(models).encode())])
        elif kind == CANCEL:
            self.jobs = [job for job in self.jobs if job.number != number]

    def _start(self, number: int, body: bytes) -> None:
        """Add a request to those that wait, or answer it if it is refused, has no text or is too long."""
        try:
            job = self._read(number, body)
        except Exception as error:
            self._send([_refusal(error).answer(number)])
            return
        if not job.texts:
            self._send([job.answer()])
        elif self._apart or max(job.sizes) <= job.model.room or self._tries(job):
            self.jobs.append(job)
        else:
            self._send([(number, APART, b"")])

    def _tries(self, job: TextRequest) -> bool:
        """Whether a request with too long texts may show, while no other waits, that `room` is too small."""
        model, seconds = job.model, GOAL + TRIAL_SHARE * (time.monotonic() - job.model.measured)
        fits = sum(job.sizes) <= min(model.room * seconds / GOAL, FIRST_ROOM)
        return fits and all(other.model is not model for other in self.jobs)

    def _load(
        self, number: int, models: dict[str, str], names: list[str], max_texts: int, max_characters: int
    ) -> None:
        """Load some of the models; a file that cannot be read leaves the old model."""
        self.max_texts, self.max_characters, failures = max_texts, max_characters, {}
        self._loading = True
        self.models = dict.fromkeys(models) | self.models
        for name in names:
            path = models[name]
            try:
                self.models[name] = ServedModel(name, path)
            except (InputError, OSError, MemoryError) as error:
                failures[name] = one_line(str(error) or "out of main memory")
            except Exception as error:  # the server waits for an answer
                traceback.print_exception(error)
                failures[name] = one_line(f"{path} cannot be loaded: {type(error).__name__}: {error}")
        self._loading = False
        self._send([(number, 200, json.dumps(failures).encode())])

    def _read(self, number: int, body: bytes) -> TextRequest:
        if len(body) > MOST_VALUES and any(islice(VALUES.finditer(body), MOST_VALUES, None)):
            raise Refusal(413, f"the body has more than {MOST_VALUES:,} values; send more requests")
        try:
            request = unambiguous_json(body.decode())
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not UTF-8 from byte {error.start} on") from None
        except ValueError as error:
            raise Refusal(400, f"the body cannot be read: {one_line(str(error), 100)}") from None
        if not isinstance(request, dict) or (request.get("text") is None) == (request.get("texts") is None):
            raise Refusal(400, 'give an object with either "text" or "texts", as in {"text": "win cash"}')
        if unknown := next((name for name in request if name not in OPTIONS), None):
            raise Refusal(400, f"there is no option {unknown!r}; there are {', '.join(sorted(OPTIONS))}")
        model, single = self._model(request.get("model")), request.get("text") is not None
        texts = model.read([request["text"]] if single else request["texts"])
        if len(texts) > self.max_texts:
            raise Refusal(413, f"{len(texts):,} texts are more than {self.max_texts:,}; send more requests")
        top = request.get("top")
        if top is not None and not (type(top) is int and top > 0 and model.has_labels):
            raise Refusal(400, '"top" must be a whole number above 0, and the model must have labels')
        probabilities = model.calibrated if (asked := request.get("probabilities")) is None else asked
        if not isinstance(probabilities, bool) or (probabilities and not model.calibrated):
            raise Refusal(400, '"probabilities" must be true or false, and true only of a calibrated model')
        job = TextRequest(number, model, texts, single, top, probabilities)
        if (longest := max(job.sizes, default=0)) > self.max_characters:
            most = f"more than {self.max_characters:,}"
            raise Refusal(413, f"a text has {longest:,} characters in its normal form, {most}")
        if job.answer_bytes > MOST_ANSWER:
            size, remedy = f"{job.answer_bytes:,} bytes", 'ask for the best labels, as in "top": 3'
            limit = f"more than {MOST_ANSWER:,}; send fewer texts, or {remedy}"
            raise Refusal(413, f"the answer would have about {size}, {limit}")
        waiting = sum(job.answer_bytes for job in self.jobs)
        if job.answer_bytes > SMALL_ANSWER and waiting + job.answer_bytes > MOST_ANSWERS:
            raise Refusal(503, "the server is busy; try again")
        return job

    def _model(self, name: object) -> ServedModel:
        names = list(self.models)
        if name is None and len(names) > 1:
            raise Refusal(400, f'give "model", one of {", ".join(names)}')
        if not isinstance(name, str | None):
            raise Refusal(400, f'"model" must be a name, one of {", ".join(names)}')
        if name is not None and name not in names:
            raise Refusal(404, f"there is no model {name[:100]!r}; there are {', '.join(names)}")
        model = self.models[name := names[0] if name is None else name]
        if model is None:
            raise Refusal(503, f"the model {name!r} cannot be loaded; stderr of the server has the reason")
        return model


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        return Refusal(503 if isinstance(error, DamagedModel) else 400, str(error))
    if isinstance(error, MemoryError):
        return Refusal(503, "out of main memory; send fewer or shorter texts")
    traceback.print_exception(error)
    return Refusal(500, "the prediction failed; stderr of the server has the error")


def _has_input() -> bool:
    """Whether stdin can be read without waiting; Windows cannot tell, so requests wait for earlier ones."""
    return os.name == "posix" and bool(select.select([0], [], [], 0)[0])


def main(apart: bool) -> None:
    """Answer the frames of stdin until its end; signals are for the server."""
    if apart and os.name == "posix":
        os.nice(NICENESS)
    for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGINT)}:
        signal.signal(number, signal.SIG_IGN)
    answers, lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(2, 1)  # prints go to stderr
    sys.setswitchinterval(0.0005)  # so that a call waits only 0.5 ms for the thread that loads models
    import_module("numba")  # without it the first predictions use functions that are slow for many texts

    def send(ready: Sequence[Answer]) -> None:
        with lock:
            answers.writelines(FRAME.pack(len(body), number, status) + body for number, status, body in ready)
            answers.flush()

    Worker(send, apart).run()
