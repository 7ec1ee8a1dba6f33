"""The application of `textsvm label`: a page for a single user on this computer.

Every address begins with a random token, which is in no other page. The host of a request must be this
computer by name or number: another site may give its own name this computer's address. A POST must come from
the page itself.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import traceback
from collections.abc import Callable
from importlib.resources import files

from textsvm.apps.label.session import Conflict, Session
from textsvm.arrays import Json
from textsvm.errors import InputError, one_line
from textsvm.reporting.html import json_element, page
from textsvm.runtime import http as http
from textsvm.runtime.http import HttpAnswer, HttpRequest, is_of_own_page, name_of
from textsvm.runtime.plain_json import error_body, to_json, unambiguous_json

HOSTS = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "frame-ancestors 'none'; object-src 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
#: Types of the parameters of actions, by their annotations.
_KINDS: Json = {
    "int": int, "str": str, "bool": bool, "str | None": (str, type(None)),
    "files.Labels": (str, list, type(None)),
}  # fmt: skip
#: Actions of the page, which are methods of the session. The name of the person (`by`) may be left out.
_ACTIONS = (
    "next", "show", "guess", "answer", "decide", "skip", "undo", "separate", "add_label", "remove_label",
    "history", "search", "review", "export",
)  # fmt: skip


class LabellingPage:
    """Application of a session."""

    def __init__(self, session: Session) -> None:
        self.session, self.token = session, secrets.token_urlsafe(24)
        self._page = label_page().encode()

    async def __call__(self, request: HttpRequest) -> HttpAnswer:
        status, body = self._refusal(request) or await self._answer(request)
        kind = "text/html; charset=utf-8" if body is self._page else "application/json"
        return HttpAnswer(status, body, kind, _HEADERS)

    def _refusal(self, request: HttpRequest) -> tuple[int, bytes] | None:
        """Answer to a request that does not come from the page."""
        host = request.headers.get("host", "")
        token = request.path.partition("/")[2].partition("/")[0]
        if name_of(host) not in HOSTS or not secrets.compare_digest(token.encode(), self.token.encode()):
            return 403, error_body("open the address that `textsvm label` has printed")
        if not is_of_own_page(request) or (request.method == "POST" and "origin" not in request.headers):
            return 403, error_body("only the page of `textsvm label` may send this")
        return None

    async def _answer(self, request: HttpRequest) -> tuple[int, bytes]:
        action = request.path.partition(f"/{self.token}/")[2]
        if request.method == "GET" and not action:
            return 200, self._page
        if request.method != "POST" or action not in _ACTIONS:
            return 404, error_body("there is no such page")
        body = await request.read()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, _act, getattr(self.session, action), body)


def _act(action: Callable[..., Json], body: bytes | bytearray) -> tuple[int, bytes]:
    """Status and body of the answer to an action."""
    try:
        return 200, json.dumps(to_json(action(**_parsed(action.__annotations__, body)))).encode()
    except InputError as error:  # `PageError` has the parts of its message
        body = json.dumps({"error": str(error), **vars(error)}).encode()
        return 409 if isinstance(error, Conflict) else 400, body
    except OSError as error:
        return 500, error_body(f"{error.filename or 'the disk'}: {error.strerror or error}")
    except Exception as error:
        traceback.print_exception(error)
        return 500, error_body("this failed; the terminal of `textsvm label` has the error")


def _parsed(annotations: Json, body: bytes | bytearray) -> Json:
    """Parameters of an action."""
    parameters = {name: _KINDS[kind] for name, kind in annotations.items() if name != "return"}
    try:
        values = unambiguous_json(body)
    except ValueError as error:
        raise InputError(f"the body cannot be read: {one_line(str(error), 100)}") from error
    if not isinstance(values, dict) or {"by": None, **values}.keys() != parameters.keys():
        raise InputError(f"the parameters are {', '.join(parameters)}")
    for name, value in values.items():
        kind = parameters[name]
        items = value if isinstance(value, list) else []
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not right or not all(isinstance(item, str) for item in items):
            raise InputError("a parameter has a wrong type")
    return values


def label_page() -> str:
    """The page; texts and labels come later, as JSON."""
    folder = files("textsvm.apps.label")
    texts = (folder.joinpath(f"label.{suffix}").read_text("utf-8") for suffix in ("css", "html", "js"))
    style, body, script = texts
    parts = [f"<style>{style}</style>", body]
    strings = json_element("strings", json.loads(folder.joinpath("label.json").read_text("utf-8")))
    return page("Labelling", "", parts, strings, script=script, connections="connect-src 'self'; ")
