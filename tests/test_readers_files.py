"""Archives and folders: read in place, whole or refused, whatever is in them."""

import bz2
import gzip
import io
import lzma
import os
import struct
import sys
import tarfile
import zipfile

import pytest
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers import files
from textsvm.readers.files import FileOnDisk, read_files, stem
from textsvm.readers.read import read_corpus
from textsvm.readers.stream import stream_corpus

FILES = {"a/1.txt": b"one", "a/2.txt": b"two" * 400, "b/3.txt": b""}


def tar(members, extra=()):
    """Bytes of a tar; `extra` are TarInfos without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return stream.getvalue()


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def contents(path, **options):
    return {file.name: file.data for file in read_files(path, **options).files}


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gzip", "bzip2", "xz"]
)
def test_every_packing_of_a_tar(pack, write):
    path = write("corpus", pack(tar(FILES)))  # no ending: the content tells
    assert contents(path) == FILES
    found = read_files(write("one.csv.gz", pack(b"a,b\n")))
    assert found.single
    assert found.files[0].data == b"a,b\n"


def test_zip_and_folder(tmp_path, write):
    assert contents(write("c.zip", zipped(FILES))) == FILES
    folder = tmp_path / "folder"
    for name, data in {**FILES, ".hidden/x": b"no", "a/.DS_Store": b"no"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "more.tgz").write_bytes(gzip.compress(tar({"4.txt": b"four"})))
    (folder / "back").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    assert contents(folder) == {**FILES, "more.tgz/4.txt": b"four"}


def test_nothing_leaves_the_archive(tmp_path):
    hostile = {"../../outside": b"x", "/etc/outside": b"x", "a/../../b": b"x", "C:\\x": b"x", "ok/in": b"in"}
    links = [special("l", tarfile.SYMTYPE, "/etc/passwd"), special("h", tarfile.LNKTYPE, "ok/in")]
    devices = [special("d", tarfile.CHRTYPE), special("f", tarfile.FIFOTYPE)]
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    for data, left_out in ((tar(hostile, links + devices), 8), (zipped(hostile | {link: b"/etc/passwd"}), 5)):
        (tmp_path / "x").write_bytes(data)
        found = read_files(tmp_path / "x")
        assert {file.name for file in found.files} == {"ok/in"}
        assert len(found.problems) == left_out
        assert all("left out" in sentence for _, sentence in found.problems)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_bombs_are_refused(pack, write):
    path = write("bomb", pack(b"\0" * 30_000_000))
    refuses("more than 1,000,000 bytes", read_files, path, max_bytes=1_000_000)
    path.write_bytes(pack(tar({"x": b"a" * 3_000_000})))
    refuses("max_bytes", read_files, path, max_bytes=1_000_000)


def test_bombs_in_zips_and_sparse_members(write):
    path = write("bomb", zipped({"x": b"a" * 900_000, "y": b"a" * 900_000}))
    refuses("max_bytes", read_files, path, max_bytes=1_000_000)
    sparse = tarfile.TarInfo("huge")
    sparse.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (1 << 32)  # the size it claims once unpacked
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(bytes(header) + b"\0" * 10_240)
    found = read_files(path)
    assert not found.files
    assert "sparse" in found.problems[0][1]


def test_a_zip_that_lies_about_its_size(write):
    data = bytearray(zipped({"x": b"a" * 5000}))
    central = data.index(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<I", 10)
    refuses("damaged", read_files, write("z.zip", data))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_truncated_archive_is_never_taken_for_a_whole_one(pack, share, write):
    whole = pack(tar({f"{i}.txt": os.urandom(2000) for i in range(20)}))
    path = write("cut.tar", whole[: max(600, int(share * len(whole)))])
    refuses(r"cut\.tar is damaged or cut off", read_files, path)
    path.write_bytes(zipped({"x": os.urandom(2000)})[: int(share * 2000)])
    refuses(r"cut\.tar is damaged or cut off", read_files, path)


def test_cut_between_two_members(tmp_path):
    (tmp_path / "cut.tar").write_bytes(tar({"1": b"x" * 512, "2": b"y" * 512})[:1024])
    refuses("the end of the archive is missing", read_files, tmp_path / "cut.tar")


def test_zstandard(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    packed = pyarrow.compress(b"label,text\n" + b"a,one\nb,two\n" * 500, codec="zstd", asbytes=True)
    (tmp_path / "x.csv.zst").write_bytes(packed)
    assert len(read_corpus(tmp_path / "x.csv.zst")) == 1000
    assert sum(1 for _ in stream_corpus(tmp_path / "x.csv.zst")) == 1000
    (tmp_path / "cut.csv.zst").write_bytes(packed[:-5])
    for read in (read_corpus, lambda path: list(stream_corpus(path))):
        refuses("damaged or cut off", read, tmp_path / "cut.csv.zst")
    (tmp_path / "bomb.zst").write_bytes(pyarrow.compress(bytes(50_000_000), codec="zstd", asbytes=True))
    refuses("unpacks to more than 200 times", read_corpus, tmp_path / "bomb.zst")
    archive = tar({"a/1.txt": b"one", "b/2.txt": b"two"})
    (tmp_path / "x.tar.zst").write_bytes(pyarrow.compress(archive, codec="zstd", asbytes=True))
    assert read_corpus(tmp_path / "x.tar.zst").labels == ["a", "b"]


def test_zstandard_without_a_library(tmp_path, monkeypatch):
    for name in ("compression.zstd", "backports.zstd", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    with pytest.raises(
        InputError, match=r"a \.zst file needs backports\.zstd \(pip install backports\.zstd\)"
    ):
        read_corpus(tmp_path / "x.csv.zst")


def test_files_of_systems_and_editors(tmp_path):
    ignored = ("desktop.ini", "Thumbs.db", "a/.DS_Store", "__MACOSX/a/._1.txt", "a/Desktop.ini")
    backups = ("a/#1.txt#", "a/1.txt~", "a/~$1.docx", "b/2.bak")
    for name in ("a/1.txt", "b/2.txt", *ignored, *backups):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_text("text")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in (tmp_path / "x").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(tmp_path / "x"))
    for corpus in (read_corpus(tmp_path / "x"), stream_corpus(tmp_path / "x").stored()):
        assert corpus.ids == ["a/1.txt", "b/2.txt"]
        assert corpus.problems == [(name, "left out: it is the backup of an editor") for name in backups]
    corpus = read_corpus(tmp_path / "x.zip")
    assert sorted(corpus.ids) == ["a/1.txt", "b/2.txt"]
    assert {name for name, _ in corpus.problems} == set(backups)


def test_office_documents_in_a_folder(tmp_path):
    types = {"[Content_Types].xml": "<x/>"}
    for name, members in {
        "a/1.docx": types | {"word/document.xml": "<x/>"},
        "b/2.pptx": types | {"ppt/p.xml": "<x/>"},
        "b/3.epub": {"META-INF/container.xml": "<x/>"},
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(zipped(members))
    refuses(r"no document .*1\.docx left out: it is a Word document", read_corpus, tmp_path)
    for name in "ab":
        (tmp_path / name / "x.txt").write_text("text")
    (tmp_path / "b/4.doc").write_bytes(files.OFFICE + bytes(600))
    corpus = read_corpus(tmp_path)
    assert corpus.labels == ["a", "b"]
    assert dict(corpus.problems) == {
        "a/1.docx": "left out: it is a Word document",
        "b/2.pptx": "left out: it is an office document",
        "b/3.epub": "left out: it is an e-book",
        "b/4.doc": "left out: it is binary",
    }


def test_lines_beside_a_picture(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/train.txt").write_text("a\tone\nb\ttwo\n")
    (tmp_path / "x/cover.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(300))
    corpus = read_corpus(tmp_path / "x")
    assert (corpus.format, corpus.labels) == ("lines", ["a", "b"])
    assert corpus.problems == [("cover.png", "left out: it is binary")]


@pytest.mark.parametrize(
    "magic", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x00", b"\x04\x22\x4d\x18", b"\x1f\x9d\x90"]
)
def test_archives_that_are_not_read(magic, write):
    refuses("not read; repack", read_files, write("x", magic + b"rest"))


def test_encrypted_zip(write):
    data = bytearray(zipped({"x": b"abc"}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    refuses("encrypted at x", read_files, write("z.zip", data))


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    refuses("nothere is not there", read_files, tmp_path / "nothere")
    refuses("neither a file nor a folder", read_files, "/dev/null")

    def refuse(self, *_):
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / "secret").write_bytes(b"x")
    monkeypatch.setattr("pathlib.Path.open", refuse)
    refuses("secret may not be read: permission denied", read_files, tmp_path / "secret")


def test_progress_reaches_the_end(tmp_path):
    (tmp_path / "t.tar.gz").write_bytes(gzip.compress(tar({str(i): os.urandom(50_000) for i in range(40)})))
    seen = []
    read_files(tmp_path / "t.tar.gz", progress=lambda done, total: seen.append(done / total))
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1, abs=0.01)


def test_hidden_folders_are_not_read_but_for_maildirs(tmp_path):
    for name in ("a/x.txt", ".git/objects/1", ".git/cur.txt", ".Sent/cur/1", ".Sent/tmp/2", "a/__MACOSX/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert list(contents(tmp_path)) == [".Sent/cur/1", "a/x.txt"]


def test_stem():
    assert stem("x/20030228_spam.tar.bz2") == "20030228_spam"
    assert stem("sci.med") == "sci.med"
    assert stem("Inbox.mbox") == "Inbox"


def test_members_of_gzip(tmp_path):
    """Many members as bgzip writes them, empty members and zeros in between; a cut-off member is an error."""
    path, members = tmp_path / "t.tsv.gz", [b"a\tb%d\n" % i * 9000 for i in range(9)]
    packed = b"".join(gzip.compress(each) + gzip.compress(b"") + b"\0" * 9 for each in members)
    path.write_bytes(packed)
    assert contents(path) == {"t.tsv": b"".join(members)}
    path.write_bytes(packed + gzip.compress(b"more")[:-5])
    refuses("damaged or cut off", read_files, path)


@pytest.mark.parametrize("read", [read_files, lambda path: FileOnDisk("t", path).data])
def test_a_bomb_of_gzip_members(read, write, monkeypatch):
    """Small members hide the ratio of their content: 30 million rows in 0.9 MB; members without content."""
    path = write("t.tsv.gz", gzip.compress(b"a\tb\n" * 1500) * 20_000)
    refuses(r"more than 1,000,000 lines from 920,000 bytes", read, path)
    monkeypatch.setattr(files, "FREE_MEMBERS", 1000)
    path.write_bytes(gzip.compress(b"") * 1001 + gzip.compress(b"a\tb\n"))
    refuses("more than 1,000 members; unpack it first", read, path)


def test_a_bomb_of_lines_in_a_zip(tmp_path):
    path = tmp_path / "t.zip"
    path.write_bytes(
        zipped({"t.tsv": b"a\tb\n" * 700_000, "u.tsv": b"a\tb\n" * 400_000, "v": os.urandom(60_000)})
    )
    refuses("more than 1,000,000 lines", read_files, path)
