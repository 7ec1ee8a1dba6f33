"""A machine learning backend for Label Studio.

It runs with `uvicorn textsvm.apps.integrations.label_studio:app --port 9090`.

The first `Choices` of a project that label a `Text` are learnt. Annotations that Label Studio sends are
appended to `textsvm-label-studio.jsonl` in the current directory (TEXTSVM_ANNOTATIONS names another file),
from which a restarted server goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from threading import Lock
from xml.etree import ElementTree

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from textsvm import SVC
from textsvm.arrays import Json
from textsvm.errors import InputError


class Project:
    """The labelled texts of a project and their classifier, which is trained when it is first needed."""

    def __init__(self) -> None:
        self.labelled: dict[str, tuple[str, str]] = {}
        self.version = 0
        self._trained: tuple[int, SVC | None] = (0, None)

    def answer(self, task: str, text: str, label: str | None) -> None:
        """Set the label of a task; None removes it."""
        self.labelled.pop(task, None)
        if label is not None:
            self.labelled[task] = text, label
        self.version += 1

    def model(self) -> SVC | None:
        """The classifier of all labelled texts; None with fewer than two labels."""
        if self._trained[0] != self.version:
            texts = [text for text, _ in self.labelled.values()]
            labels = [label for _, label in self.labelled.values()]
            model = SVC().fit(texts, labels) if len(set(labels)) > 1 else None
            self._trained = self.version, model
        return self._trained[1]


class Tags:
    """Names in a labelling configuration: of the choices, of the text, and of its field in the data."""

    def __init__(self, config: str) -> None:
        try:
            root = ElementTree.fromstring(config)
        except ElementTree.ParseError as error:
            raise InputError(f"the labelling configuration is not XML: {error}") from error
        fields = {text.get("name"): text.get("value", "").lstrip("$") for text in root.iter("Text")}
        for choices in root.iter("Choices"):
            if choices.get("toName") in fields:
                self.choices, self.text = choices.get("name"), choices.get("toName")
                self.field = fields[self.text]
                return
        raise InputError("the labelling configuration has no <Choices> of a <Text>; add both")

    def label(self, results: list[Json]) -> str | None:
        """The first choice of an annotation, if it has any."""
        for result in results:
            if result.get("from_name") == self.choices and result["value"].get("choices"):
                return str(result["value"]["choices"][0])
        return None

    def prediction(self, label: str, score: float) -> Json:
        """A label in the form of Label Studio."""
        names = {"from_name": self.choices, "to_name": self.text, "type": "choices"}
        return {"result": [names | {"value": {"choices": [label]}}], "score": score}


class Backend:
    """All projects of a Label Studio, and the file of their annotations."""

    def __init__(self, path: str) -> None:
        self.path, self.lock = path, Lock()
        self.projects: dict[str, Project] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    self._answer(*json.loads(line))

    def _answer(self, project: str, task: str, text: str, label: str | None) -> None:
        self.projects.setdefault(project, Project()).answer(task, text, label)

    def predict(self, body: Json) -> Json:
        """Labels of tasks; none before there are texts with two different labels."""
        tags, texts = Tags(body["label_config"]), body["tasks"]
        # Predictions name the project "ID.TIME", webhooks the ID.
        project = self.projects.setdefault(str(body.get("project", "")).partition(".")[0], Project())
        model = project.model()
        if model is None or not texts:
            return {"results": [], "model_version": str(project.version)}
        values = model.decision_function([str(task["data"].get(tags.field, "")) for task in texts])
        values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
        scores = 1 / (1 + np.exp(-2 * values.max(axis=1)))
        labels = model.classes_[values.argmax(axis=1)]
        results = [tags.prediction(str(a), float(b)) for a, b in zip(labels, scores, strict=True)]
        return {"results": results, "model_version": str(project.version)}

    def webhook(self, body: Json) -> Json:
        """Learn, correct or forget the label of a task."""
        if not body.get("action", "").startswith(("ANNOTATION_CREATED", "ANNOTATION_UPDATED")):
            return {}
        tags, task = Tags(body["project"]["label_config"]), body["task"]
        label = tags.label(body["annotation"].get("result") or [])
        answer = (str(body["project"]["id"]), str(task["id"]), str(task["data"].get(tags.field, "")), label)
        with open(self.path, "a", encoding="utf-8", newline="\n") as lines:
            lines.write(json.dumps(answer) + "\n")
        self._answer(*answer)
        return {"model_version": str(self.projects[answer[0]].version)}

    async def respond(self, request: Request) -> JSONResponse:
        """Answer POST /predict, /setup and /webhook; 400 with a sentence for a wrong body."""
        methods: dict[str, Callable[[Json], Json]] = {
            "predict": self.predict, "webhook": self.webhook, "setup": lambda _: {"model_version": "0"},
        }  # fmt: skip
        try:
            body = json.loads(await request.body())
            return JSONResponse(await run_in_threadpool(self._locked, methods[request.url.path[1:]], body))
        except InputError as error:
            return JSONResponse({"error": str(error)}, 400)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return JSONResponse({"error": f"this is not a request of Label Studio: {error!r}"}, 400)

    def _locked(self, method: Callable[[Json], Json], body: Json) -> Json:
        with self.lock:  # requests run in threads
            return method(body)


def application(path: str) -> Starlette:
    """The ASGI application with the annotations of a file."""
    backend = Backend(path)
    names = ("predict", "setup", "webhook")
    routes = [Route(f"/{name}", backend.respond, methods=["POST"]) for name in names]
    return Starlette(routes=[Route("/health", _health), Route("/", _health), *routes])


async def _health(_: Request) -> JSONResponse:
    return JSONResponse({"status": "UP", "model_class": "textsvm"})


app = application(os.environ.get("TEXTSVM_ANNOTATIONS", "textsvm-label-studio.jsonl"))
