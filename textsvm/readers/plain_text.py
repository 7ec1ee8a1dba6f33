"""Readers of plain text: a folder for each class, or a document a line with its label first.

Folders: each file is a document, its label the folder it lies in. `train/pos/1.txt` is a document of part
"train" with the label "pos"; names of parts are no labels. Files beside the folders of classes (a README) are
left out. Without folders, the documents have no labels. The other formats: docs/command_line.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, groupby
from pathlib import PurePosixPath

from textsvm.errors import InputError
from textsvm.readers.charsets import decode, encoding_of, is_binary
from textsvm.readers.corpus import Document, InvalidRows, Label, LabelledCells, ReadOptions, grouping
from textsvm.readers.files import HEAD, File, Problems, iterate_lines, stem, with_progress
from textsvm.runtime.parallel import Progress

PART = re.compile(
    r"(?<![a-z])(train|test|dev|valid|val|validation|development)(?:ing)?(?![a-z])", re.IGNORECASE
)
_PARTS = {"valid": "dev", "val": "dev", "validation": "dev", "development": "dev"}
_PREFIX = "__label__"  #: Of labels of fastText, which has an option for others; they begin all lines
_OTHER_PREFIX = re.compile(r"(__[A-Za-z]+__)\S")
#: Comment of CoNLL: a key with its value; keys of labels; tags of tokens.
_COMMENT = re.compile(r"#\s*(\w+)\s*[:=]\s*(.*)")
_LABEL_KEYS = ("label", "class", "category", "intent", "sentiment", "topic", "genre")
_TAG = re.compile(r"O|[BIESLU]-\S+")
_MARKED = 0.1  #: Share of the lines of fastText that have labels.
_MAX_LABEL = 100
PROGRESS_STEP = 1024  #: Lines or rows between progress reports


def part_of(name: str) -> str | None:
    """The part ("train", "test" or "dev") that a path names, the outermost name first."""
    for piece in PurePosixPath(name).parts:
        words = {_PARTS.get(word.lower(), word.lower()) for word in PART.findall(piece)}
        if len(words) == 1:
            return words.pop()
    return None


def read_folders(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """Documents of a folder for each class; `problems` gets files that are damaged or left out."""
    paths = {file.name: class_folders(PurePosixPath(file.name).parent) for file in files}
    by_name, sample = options.name_pattern is not None, list[LabelledCells]()
    level = 0 if by_name else class_level(paths.values(), options)
    for number, file in enumerate(files, 1):
        path = paths[file.name]
        if len(path) < level:
            problems.append((file.name, "left out: it lies beside the class folders, not in one"))
        elif is_binary(data := file.data):
            problems.append((file.name, "left out: it is binary"))
        else:
            text, problem = decode(data)
            options.decide(encoding=encoding_of(data[:HEAD]))
            if problem:
                problems.append((file.name, problem))
            if options.group and len(path) <= level:
                raise InputError(f"--groups folder: {file.name} is not in a folder below that of its class")
            label, part = path[level - 1] if level else None, part_of(str(PurePosixPath(file.name).parent))
            label = options.label_of(file.name) if by_name else label
            group = "/".join(path[: level + 1]) if options.group else None
            sample.append((label, ["/".join(path[: level + 1]) if len(path) > level else ""]))
            yield Document(file.name, text, label, part, group=group)
        if progress is not None and (number % 256 == 0 or number == len(files)):
            progress(number, len(files))
    if by_name and 1 < len(sample) == len({label for label, _ in sample}):
        separate = "--format plain reads a text per line, --format paragraphs one per paragraph"
        problems.append((files[0].name, f"a class of a single file, as all others are; {separate}"))
    options.decide(grouping=grouping(sample, ["folder"] if options.group is None else []))


def class_folders(folder: PurePosixPath) -> tuple[str, ...]:
    """Names of the folders of a path that may be classes, the outermost first."""
    return tuple(name for name in map(stem, folder.parts) if not PART.fullmatch(name))


def class_level(paths: Collection[tuple[str, ...]], options: ReadOptions) -> int:
    """The level of the folders that are the classes, 0 for none; InputError if several levels may be."""
    folders, level = {path for path in paths if path}, options.level
    if not options.labelled or not folders:
        return 0
    deepest = max(map(len, folders))
    outer = sum(len({path[: k + 1] for path in folders}) == 1 for k in range(deepest))  # levels of one folder
    if level is None and deepest > outer + 1:
        names = [sorted({path[k] for path in folders if len(path) > k}) for k in range(deepest)]
        levels = (f"--level {k} ({', '.join(names[k - 1][:5])})" for k in range(outer + 1, deepest + 1))
        raise InputError(f"folders lie in folders; which are the classes: {' or '.join(levels)}?")
    level = deepest if level is None else level
    if not 1 <= level <= deepest:
        raise InputError(f"--level {level}: the folders of the documents have the levels 1 to {deepest}")
    options.decide(level=level if deepest > 1 else None)
    return level


def is_lines(head: str) -> bool:
    """Whether all lines (the last may be cut off) have a label and a text after it."""
    lines = _head_lines(head)
    labelled = all(line.count("\t") == 1 and 0 < line.index("\t") <= _MAX_LABEL for line in lines)
    return _fasttext_labels(head) is not None or (bool(lines) and labelled)


def _head_lines(head: str) -> list[str]:
    """The lines with a text; the last may be cut off, and is left out if there are others."""
    lines = [line for line in head.split("\n") if line.strip()]
    return lines[:-1] or lines


def _fasttext_labels(head: str) -> re.Pattern[str] | None:
    """Pattern of the labels of fastText with the space after them; None if too few lines have any.

    A comma after a label belongs to it only if most labels without it do not occur again.
    """
    lines = _head_lines(head)
    others = [match[1] for line in lines if (match := _OTHER_PREFIX.match(line))]
    prefix = others[0] if len(others) == len(lines) > 1 and len(set(others)) == 1 else _PREFIX
    labels = re.compile(rf"(?<!\S){prefix}(\S+)\s*")
    marked = [match[1] for line in lines if (match := labels.search(line))]
    if len(marked) <= _MARKED * len(lines):
        return None
    glued = [label for label in marked if re.search(r"[^,;][,;][^,;]", label)]
    if 2 * len(glued) > len(marked) and 2 * len({re.split("[,;]", x)[0] for x in glued}) <= len(glued):
        return re.compile(rf"(?<![^\s,;]){prefix}([^\s,;]+)[,;]?\s*")
    return labels


def is_conll(head: str) -> bool:
    """Whether the lines are tokens with tags, in columns, and sentences end with an empty line."""
    lines = [line for line in head.strip().split("\n") if not line.startswith(("#", "-DOCSTART-"))]
    rows = [_columns_of(line) for line in lines[:-1] if line.strip()]
    tabs = not any(" " in line or "\t" not in line for line in lines if line)
    tags = sum(_TAG.fullmatch(row[-1].strip()) is not None for row in rows) > 0.9 * len(rows)
    in_columns = len(rows) > 2 and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return in_columns and (tabs or tags) and not all(map(str.strip, lines))


def _columns_of(line: str) -> list[str]:
    return line.strip().split("\t") if "\t" in line else line.split()


def read_conll(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """Sentences with the label that a comment names, as in `# intent: book_flight`."""
    labelled = False
    for file, report in with_progress(files, progress):
        facts, tokens, sentences = dict[str, str](), list[str](), 0
        for line in chain(iterate_lines(file, problems), [""]):
            if match := _COMMENT.match(line):
                facts[match[1].lower()] = match[2].strip()
            elif line.strip() and not line.startswith(("#", "-DOCSTART-")):
                row = _columns_of(line)
                tokens += row[:1] if not row[0][0].isdigit() or len(row) < 3 else row[1:2]
            elif tokens and not line.strip():
                sentences += 1
                report()
                label = next((facts[key] for key in _LABEL_KEYS if key in facts), None)
                labelled = labelled or label is not None
                name = f"{file.name}:{sentences}" if len(files) > 1 else str(sentences)
                yield Document(name, facts.get("text", " ".join(tokens)), label, part_of(file.name))
                facts, tokens = {}, []
    if options.labelled and not labelled:
        raise InputError(
            f"{files[0].name} has a tag for each token (CoNLL) and no labels of texts; a comment can name "
            "the label of a sentence (# label = NAME), and --format reads the file in another way"
        )


def read_lines(
    files: Sequence[File], problems: Problems, options: ReadOptions, progress: Progress | None
) -> Iterator[Document]:
    """Documents of lines; ids are line numbers, with the file if there are several.

    A file named after a part (`r8-train-all-terms.txt`) is that part. If no labels are read, a file whose
    first lines do not all have labels has texts alone. `problems` gets lines that are left out.
    """
    for file, report in with_progress(files, progress):
        parsed = _line_parser(file, options, problems)
        invalid = InvalidRows(file.name, "line", options, problems)
        number, without_label = 0, 0
        lines = iterate_lines(file, problems)
        if options.format == "paragraphs":  # lines up to an empty line
            lines = ("".join(group) for blank, group in groupby(lines, str.isspace) if not blank)
        for number, line in enumerate(lines, 1):
            line = line.removesuffix("\n").removesuffix("\r")
            if number % PROGRESS_STEP == 0:
                report()
            identifier = str(number) if len(files) == 1 else f"{file.name}:{number}"
            document, problem = parsed(line, identifier)
            if document is None and not problem:
                without_label += 1
            elif document is not None and not problem:
                yield document
            elif options.reports_invalid:
                yield Document(identifier, "", problem=f"line {number}: {problem}")
            elif document is not None:
                invalid.add(number, problem)
        if without_label:
            problems.append((file.name, f"lines without a __label__, which are left out: {without_label:,}"))
        invalid.check(number)


def _line_parser(
    file: File, options: ReadOptions, problems: Problems
) -> Callable[[str, str], tuple[Document | None, str]]:
    """Makes the document of a line and its id, with its problem, by the first bytes of the file.

    There is no document if the line is empty or has no label.
    """
    of_file, part = options.label_of(file.name) if options.name_pattern else None, part_of(file.name)
    head, plain = decode(file.head)[0], options.format in ("plain", "paragraphs") or of_file is not None
    fasttext = None if plain else _fasttext_labels(head)
    if fasttext is not None and ",;" in fasttext.pattern:
        problems.append((file.name, "a comma after a label begins the text and is left out"))
    plain = plain or not (options.labelled or is_lines(head))
    options.decide(text=None if plain else "after the label", encoding=encoding_of(file.head))

    def document(line: str, identifier: str) -> tuple[Document | None, str]:
        if not line.strip():
            return None, "it is empty"
        labels = fasttext.findall(line) if fasttext and not plain else []
        label, tab, text = line.partition("\t")
        if fasttext and not labels and options.labelled:
            return None, ""
        names: Label | None = label
        if labels and fasttext:
            text, names = fasttext.sub("", line).rstrip(), tuple(dict.fromkeys(labels))
            names = labels[0] if len(labels) == 1 else names
        elif plain or fasttext:
            text, names = line, of_file
        elif not tab or not label.strip():
            return Document(identifier, text), "it is not a label, a TAB and a text"
        problem = "its text is empty" if options.needs_text and not text.strip() else ""
        return Document(identifier, text, names, part), problem

    return document
