"""Characters that are there to be misread: invisible ones, look-alikes of other scripts, styled alphabets.

What is seen is kept: invisible characters go, look-alikes in a word of several scripts and styled letters
become the letters that they look like. What was found is named, with how often it was there in steps.
"""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]"
    "|(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])"  # elsewhere they are part of Persian, Hindi, emoji
)
_TURNED = re.compile("[\u202d\u202e\u2066-\u2068]")
_STYLED = re.compile("[\u24b6-\u24e9\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f189]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LATIN = re.compile("[A-Za-z]")
#: Letters of other scripts and the Latin ones that they look like.
_PAIRS = (
    "аa вb еe ѐe ёe гr іi їi јj кk мm нh оo рp сc тt уy хx ѕs һh ԁd ԛq ԝw ьb пn "
    "АA ВB ЕE ЁE ЅS ІI ЇI ЈJ КK МM НH ОO РP СC ТT УY ХX ԌG ԚQ ԜW "
    "αa βb γy εe ηn ιi κk νv οo ρp τt υu χx ωw ϲc ϳj άa έe ίi όo ύu "
    "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ϹC "
    "ոn սu օo հh ցg զq ՏS ՕO ԼL ᎪA ᏴB ᏟC ᎠD ᎬE ᎷM ᏢP ᎢT ᏔW"
)
_FOLD = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})
_ALIKE = re.compile("[" + "".join(map(chr, _FOLD)) + "]")
_STEPS = ((16, "16 or more"), (4, "4 or more"), (0, "few"))


def plain_letters(text: str) -> tuple[str, list[str]]:
    """The text as a reader would read it, and what was done to make a program read it otherwise.

    Parameters
    ----------
    text : str

    Returns
    -------
    text : str
    tricks : list of str
        In words: "zero-width characters 4 or more".
    """
    if text.isascii():
        return text, []
    tricks = []
    text, invisible = _INVISIBLE.subn("", text)
    tricks += _counted("zero-width characters", invisible)
    text, turned = _TURNED.subn("", text)
    tricks += _counted("writing direction turned", turned)
    text, styled = _STYLED.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    tricks += _counted("styled letters", styled)
    mixed: list[str] = []
    text = _WORD.sub(lambda match: _folded(match[0], mixed), text)
    return text, tricks + _counted("letters of several scripts in one word", len(mixed))


def _folded(word: str, mixed: list[str]) -> str:
    if word.isascii() or not (_LATIN.search(word) and _ALIKE.search(word)):
        return word
    mixed.append(word)
    return word.translate(_FOLD)


def _counted(what: str, times: int) -> list[str]:
    return [f"{what} {next(words for least, words in _STEPS if times >= least)}"] * (times > 0)
