"""Delimited text in and out. In: encoding, dialect, header, and every cell as text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.cells import QUICK_MARKS, is_plain_number
from flfl.io.columns import Columns, Dialect
from flfl.io.files import Writer
from flfl.io.times import looks_like_date, looks_like_time

DELIMITERS = ",;\t|"
Row = tuple[int, list[str]]
"""The line on which a row starts, and its cells."""
Refuse = Callable[[str, str, int | None], InputError]
"""The refusal of a line: what is wrong, the remedy, and the line."""
# Lines looked at for the header and for what stands below the table; bytes parsed at a time: of
# texts more than any row, of numbers as many as stay near the processor.
_LONGEST_TITLE, _LONGEST_FOOT, _MANY = 50, 20, 60
_BLOCKS = {pa.string(): 1 << 24, pa.float64(): 1 << 22}
_SUMMARIES = re.compile(
    r"(mean|average|avg|median|min|minimum|max|maximum|sum|total|std|stdev|count|n|mittel(wert)?"
    r"|summe|gesamt|anzahl|moyenne|somme|media|promedio|suma|máximo|mínimo)\W*",
    re.IGNORECASE,
)
_BESIDE = re.compile(r"status|flags?|qc|quality|units?|einheit", re.IGNORECASE)
_NOTHING = DELIMITERS + " \r\n"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class Frame:
    """Where in a text the table is: its delimiter and column names, the texts above and below, the
    byte and the line where its first row begins."""

    delimiter: str
    names: tuple[str, ...]
    above: str
    below: str
    start: int
    first_line: int


@dataclass(frozen=True, eq=False)
class Body:
    """The rows of a table in a text."""

    text: bytes
    frame: Frame

    @cached_property
    def view(self) -> memoryview:
        """All rows, not copied, without the line end of the last."""
        end = len(self.text) - len(self.frame.below.encode())
        tail = self.text[max(end - 1000, self.frame.start) : end]
        end -= len(tail) - len(tail.rstrip(b"\r\n"))
        return memoryview(self.text)[self.frame.start : end]

    @cached_property
    def quoted(self) -> bool:
        """Whether a cell may hold delimiters and line ends."""
        start = self.frame.start
        return self.text.find(b'"', start, start + len(self.view)) >= 0

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each line begins, and where the last one ends."""
        lines, end = io.BytesIO(self.text), len(self.view)
        lines.seek(self.frame.start)
        starts = np.cumsum([0, *map(len, lines)])
        return np.append(starts[starts < end], end)

    def split(self, first: int, last: int) -> list[pa.Array]:
        """The texts of some rows, where each is a line."""
        return self.texts(self.view[self.starts[first] : self.starts[last]])

    def texts(self, view: memoryview | None = None) -> list[pa.Array]:
        """Every cell as text, column by column; the texts are needed when the table is written."""
        # So many columns are sensors: their gaps are found while the cells are split.
        wide = len(self.frame.names) > _MANY
        columns = pa_csv.read_csv(*self._options(view or self.view, pa.string(), wide)).columns
        # Arrow keeps the blocks it has used, as much again as the cells.
        pa.default_memory_pool().release_unused()
        # Column by column, so that the file is never held twice.
        arrays = [columns.pop(0).combine_chunks() for _ in self.frame.names]
        pa.default_memory_pool().release_unused()
        if wide:
            arrays[:2] = [pc.fill_null(array, "") for array in arrays[:2]]
        return arrays

    def numbers(self) -> tuple[pa.Array, NDArray[np.float64]] | None:
        """The first column as text and all others as numbers (columns x rows), where they are, and
        each line is a row, in a file so wide that its columns are sensors."""
        mark, width = self.frame.delimiter, len(self.frame.names)
        first = bytes(self.view[:100]).decode(errors="ignore").split(mark)[0]
        if width <= _MANY or self.quoted or not looks_like_time(first):
            return None
        lengths, times, at = np.diff(self.starts), list[pa.Array](), 0
        # A blank line is no row.
        if lengths.min() < width - 1:
            return None
        values = np.empty((width - 1, len(lengths)))
        try:
            for batch in pa_csv.open_csv(*self._options(self.view, pa.float64(), True)):
                times.append(batch.column(0))
                if at + len(batch) > len(lengths):  # a lone return ends a row, too
                    return None
                cells = batch.remove_column(0).to_tensor(null_to_nan=True, row_major=False)
                values[:, at : at + len(batch)] = cells.to_numpy().T
                at += len(batch)
        except pa.ArrowInvalid:
            return None
        whole = at == len(lengths)
        return (pc.fill_null(pa.concat_arrays(times), ""), values) if whole else None

    def _options(self, view: memoryview, kind: pa.DataType, nulls: bool) -> tuple[Any, ...]:
        """What Arrow is told to split cells, the first column's into texts, others by ``kind``."""
        keys = [str(position) for position in range(len(self.frame.names))]
        return (
            pa.BufferReader(view),
            pa_csv.ReadOptions(
                column_names=keys, block_size=min(len(view), _BLOCKS[kind]), use_threads=False
            ),
            pa_csv.ParseOptions(delimiter=self.frame.delimiter, newlines_in_values=self.quoted),
            pa_csv.ConvertOptions(
                column_types={**dict.fromkeys(keys, kind), "0": pa.string()},
                strings_can_be_null=nulls,
                null_values=QUICK_MARKS,
                check_utf8=False,  # it is: see `decode`
            ),
        )


def decode(data: bytes, encoding: str | None, refuse: Refuse) -> tuple[bytes, str, str, list[str]]:
    """A text as UTF-8 without a mark, its encoding, the mark, and what was found out about it."""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    bare = data[len(mark) :]
    known = encoding or _MARKS.get(mark)
    if known is None and len(bare) > 3 and bare[:200].count(0) > len(bare[:200]) // 4:
        known = "utf-16-le" if bare[1] == 0 else "utf-16-be"
    try:
        if known is None or codecs.lookup(known).name == "utf-8":
            if not bare.isascii():
                bare.decode("utf-8")
            return bare, "utf-8", "\ufeff" if mark else "", []
        text = bare.decode(known)
    except UnicodeDecodeError as error:
        if known is not None:
            number, name = bare.count(b"\n", 0, error.start) + 1, known.upper()
            remedy = "Name another encoding, for example encoding=windows-1252"
            raise refuse(f"the bytes are not {name} text", remedy, number) from None
        # Nearly every text that is not UTF-8 is of this family; it leaves five bytes undefined.
        known = "windows-1252"
        try:
            text = bare.decode(known)
        except UnicodeDecodeError as error:
            number = bare.count(b"\n", 0, error.start) + 1
            remedy = "Name it, for example encoding=shift_jis, gb18030, windows-1251 or latin-1"
            raise refuse("the encoding of the text is not known", remedy, number) from None
    except LookupError:
        problem, remedy = f"there is no encoding {known!r}", "Give utf-8, windows-1252 or utf-16"
        raise InputError(problem, where="encoding", remedy=remedy) from None
    told = (
        []
        if encoding
        else [f"The text was read as {known}; encoding=utf-8, or another, overrules that."]
    )
    return text.encode("utf-8"), known, "\ufeff" if mark else "", told


def looks_like_text(data: bytes) -> bool:
    """Whether bytes are text: all of one kind of mark, or none that only binary files have."""
    return data.startswith(tuple(_MARKS)) or b"\0" not in data[:4000]


def refuse_web_page(path: Path, data: bytes) -> None:
    """A page in place of a table: a portal's login, or a table that it calls a spreadsheet."""
    if re.match(rb"(\xef\xbb\xbf)?\s*<(!doctype html|html|\?xml|table|head)", data[:200].lower()):
        remedy = (
            "Download the table itself, or open this file in a spreadsheet and save it as .xlsx"
        )
        raise InputError("this is a web page, not a table", where=str(path), remedy=remedy)


def read_text(path: Path, data: bytes, encoding: str | None = None) -> Columns:
    """Every cell as text; the texts are needed again when the table is written."""

    def refuse(problem: str, remedy: str, number: int | None = None) -> InputError:
        where = str(path) if number is None else f"{path}, line {number}"
        return InputError(problem, where=where, remedy=remedy)

    bare, encoding, mark, notes = decode(data, encoding, refuse)
    if not bare[:1000].strip() and not bare.strip():
        raise refuse("the file is empty", "Give a file with readings")
    if (split := _without_blanks(bare)) is not None:
        bare = split
        notes.append("The columns are separated by runs of blanks; tabs are written instead.")
    frame, told = _frame(refuse, bare)
    body = Body(bare, frame)
    if not bytes(body.view[:1000]).strip():
        raise refuse("the file has a header but no rows", "Give a file with readings")
    found = body.numbers()
    try:
        arrays = body.texts() if found is None else [found[0], *map(pa.array, found[1])]
    except pa.ArrowInvalid as error:
        rows = csv_rows(bare, frame.delimiter, frame.first_line - 1)
        raise _ragged_row(refuse, rows, len(frame.names), str(error), bool(split)) from None
    line_end = _LINE_END.search(bare)

    def line(row: int) -> str:
        rows = csv_rows(bare, frame.delimiter, frame.first_line - 1)
        found = next(islice(rows, row, None), None)
        return f"row {row + 1}" if found is None else f"line {found[0]}"

    return Columns(
        path=path,
        names=frame.names,
        arrays=tuple(arrays),
        format="csv",
        place=line,
        numbers=None if found is None else found[1],
        split=None if found is None else body.split,
        dialect=Dialect(
            frame.delimiter, ".", line_end.group().decode() if line_end else "\n", mark, encoding,
            frame.above, frame.below,
        ),
        notes=tuple(notes + told),
    )  # fmt: skip


def _without_blanks(bare: bytes) -> bytes | None:
    """A text whose columns are separated by runs of blanks, with tabs instead; None for others.

    A mark of comments before the names goes; names for all columns but the first, as R writes them,
    stand above rows that are numbered.
    """
    lines = bare[: 1 << 16].decode("utf-8", errors="ignore").splitlines()[:_MANY]
    cells = [re.findall(r'"[^"]*"|[^\s"]+', line.lstrip("#")) for line in lines]
    there = [i for i, row in enumerate(cells) if row]
    for place, at in enumerate(there[:-1]):
        below = there[place + 1 :]
        words = len(list(takewhile(lambda i: not any(map(is_plain_number, cells[i])), below)))
        # Marks of comments stand before the names of all rows of words, or before none.
        hidden = lines[at].startswith("#") and any(lines[i][0] != "#" for i in below[:words])
        if any(mark in lines[at] for mark in DELIMITERS) or len(cells[at]) < 2 or hidden:
            continue
        if any(map(is_plain_number, cells[at])) or not below[words:]:
            continue
        width = len(cells[below[words]])
        alike = sum(len(cells[i]) == width for i in below[words:])
        known = [is_plain_number(cell) for i in below[words:] for cell in cells[i][1:]]
        marked = any(re.search(r"[;\t|]|,(?!\d)|(?<!\d),", lines[i]) for i in below)
        if marked or width - len(cells[at]) not in (0, 1) or 2 * alike <= len(below[words:]):
            continue
        if 2 * sum(known) < len(known):
            continue
        start, table = _offset(bare, at), _tabbed(bare[_offset(bare, at) :])
        first, second = cells[below[words]][:2]
        if width > len(cells[at]) and looks_like_date(first) and ":" in second:
            # One name stands above the date and the clock.
            table = re.sub(rb"(?m)^([^\t\n]*)\t(?=\d?\d:)", rb"\1 ", table)
        elif width > len(cells[at]):
            table = b"row\t" + table
        return bare[:start] + table
    return None


def _tabbed(table: bytes) -> bytes:
    """Runs of blanks as tabs, but for those in quotation marks and at the ends of lines."""
    table = re.sub(rb"(?m)^[ #]+|[ ]+(?=\r?$)", b"", table)
    if b'"' in table:
        return re.sub(rb'("[^"\r\n]*")|[ ]+', lambda found: found[1] or b"\t", table)
    return re.sub(rb"[ ]+", b"\t", table)


def csv_rows(data: bytes, delimiter: str, skip: int = 0) -> Iterator[Row]:
    """Every row that is not blank, with the line it starts on; slow, for messages and the top."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    for _ in range(skip):
        lines.readline()
    reader, before = csv.reader(lines, delimiter=delimiter), 0
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield skip + before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def _frame(refuse: Refuse, bare: bytes) -> tuple[Frame, list[str]]:
    """Find the table in a text: below titles and comments, above sources and means."""
    # A megabyte holds any header. Quoted names do not count.
    head = bare[: 1 << 20].decode("utf-8", errors="ignore")
    first_line = "".join(re.sub(r'"[^"]*"', "", head.lstrip("\r\n")).splitlines()[:1])
    delimiter = max(DELIMITERS, key=first_line.count)
    top = list(islice(csv_rows(bare, delimiter), _LONGEST_TITLE))
    if not top:
        remedy = "Look for a quotation mark that is never closed"
        raise refuse("the header cannot be read as column names", remedy, 1)
    at, notes = 0, list[str]()
    if _is_title(top):
        delimiter, top, at = _search(bare) or (delimiter, top, 0)
        if at == 0 and (len(top[0][1]) == 1 or top[0][1][0].startswith("#")):
            _refuse_title(refuse, top)
    line, header = top[at]
    names, width = [name.strip() for name in header], len(header)
    titles = at
    if both := _two_rows(top, at):
        names, at = both
        notes.append("The names of the columns stand in two rows.")
    names = _told_apart(names)
    if below := [row for _, row in top[at + 1 : at + 6]]:
        most = max(map(len, below))
        # A delimiter at the end of every row, or of the header alone.
        if most == width + 1 and not any(row[width:][-1:] not in ([], [""]) for row in below):
            names.append("")
        elif most == width - 1 and not names[-1]:
            names.pop()
    body_line = top[at + 1][0] if at + 1 < len(top) else line + 1
    above = bare[: _offset(bare, line - 1)].decode("utf-8").lstrip("\r\n")
    if titles:
        told = "1 line" if titles == 1 else f"{titles} lines"
        notes.append(f"{told} above the column names not read: {top[0][1][0].strip()[:60]!r}.")
    below_text = _foot(bare, delimiter, len(names))
    if shown := "".join(below_text.strip(_NOTHING).splitlines()[:1]).strip()[:60]:
        notes.append(f"What stands below the table is not read: {shown!r}.")
    start = _offset(bare, body_line - 1)
    return Frame(delimiter, tuple(names), above, below_text, start, body_line), notes


def _offset(data: bytes, lines: int) -> int:
    """Where the line after so many lines begins."""
    ends = islice(_LINE_END.finditer(data), lines)
    return max((end.end() for end in ends), default=0) if lines else 0


def _is_title(top: list[Row]) -> bool:
    """Whether the first row is something other than column names."""
    (_, header), *below = top
    names = [name.strip() for name in header]
    widths = [len(row) for _, row in below]
    # ``#time,a,b`` is a header all the same.
    if names[0].startswith("#") and (
        len(names) == 1 or widths[:1] != [len(names)] or below[0][1][0].lstrip().startswith("#")
    ):
        return True
    if len(names) == 1:
        cells = [cell for _, row in below for cell in row]
        return len(cells) > len(below) or any(m in cell for cell in cells for m in DELIMITERS)
    # Cells beside a title may be empty, as a spreadsheet writes them.
    blank = sum(not name for name in names)
    # A delimiter at the end of the rows, or of the header, makes one cell more.
    alike = sum(w - len(names) in ((0, 1) if names[-1] else (-1, 0, 1)) for w in widths)
    return (blank * 2 >= len(names) and len(names) > 2) or 2 * alike < len(widths)


def _two_rows(top: list[Row], at: int) -> tuple[list[str], int] | None:
    """Names that stand in two rows, as those of stations above those of quantities, and the lower
    row; None where one row names every column."""
    names = [name.strip() for name in top[at][1]]
    named = names[: len(names) - (not names[-1])]
    if all(named[1:]) and len(set(named)) == len(named):
        return None
    for low in (at, at + 1):
        if low == 0 or low + 1 >= len(top):
            continue
        above, below = ([cell.strip() for cell in top[i][1]] for i in (low - 1, low))
        words = [cell for cell in (*above, *below) if cell]
        plain = not any(is_plain_number(cell) or looks_like_date(cell) for cell in words)
        above += [""] * (len(below) - len(above))
        alike = len(above) == len(below) and sum(map(bool, above)) > 1
        if plain and alike and looks_like_date(top[low + 1][1][0]):
            return _joined_names(above, below), low
    return None


def _told_apart(names: list[str]) -> list[str]:
    """Names of flags and units that come again, with that of the readings which they are beside."""
    many, of, told = Counter(names), "", []
    for name in names:
        beside = many[name] > 1 and _BESIDE.fullmatch(name)
        of = of if beside else name
        told.append(f"{of} {name}" if beside else name)
    return told


def _joined_names(above: list[str], below: list[str]) -> list[str]:
    """One name a column; what stands above goes for the empty cells to its right as well."""
    groups: list[tuple[str, list[str]]] = []
    for up, down in zip(above, below, strict=True):
        if up or not groups:
            groups.append((up, [down]))
        else:
            groups[-1][1].append(down)
    stations = [downs for up, downs in groups if up]
    # A station with one quantity, perhaps with its flag and its unit, is a sensor.
    beside = all(map(_BESIDE.fullmatch, (down for downs in stations for down in downs[1:])))
    sensors = beside and len({downs[0] for downs in stations}) == 1
    names = []
    for up, (first, *rest) in groups:
        together = (first, *(f"{one} {up}".strip() for one in rest))
        if up and not beside:
            together = (f"{first} {up}", *together[1:])
        elif up:
            together = (up if sensors else f"{up} {first}", *(f"{up} {one}" for one in rest))
        names += [*together]
    return names


def _search(bare: bytes) -> tuple[str, list[Row], int] | None:
    """The delimiter, the first rows, and which of them is the header: the widest one that is all
    names and has rows as wide below it."""
    best: tuple[int, int, str, list[Row], int] | None = None
    for delimiter in DELIMITERS:
        top = list(islice(csv_rows(bare, delimiter), _LONGEST_TITLE))
        for at, (_, row) in enumerate(top[:-1]):
            cells = [cell.strip() for cell in row]
            width = len(cells) - (not cells[-1])
            under = [len(r) - (not r[-1].strip()) for _, r in top[at + 1 : at + 6]]
            named = all(c and not is_plain_number(c) for c in cells[1:width])
            if width < 2 or not named or sum(abs(w - width) <= 1 for w in under) * 2 <= len(under):
                continue
            if cells[0].startswith("#") or looks_like_date(cells[0]):
                continue
            if best is None or (width, -at) > best[:2]:
                best = width, -at, delimiter, top, at
    return None if best is None else best[2:]


def _refuse_title(refuse: Refuse, top: list[Row]) -> None:
    (line, header), *below = top
    name = header[0].strip()
    if name.startswith("#"):
        what, remedy = "comment", "Remove the lines that start with # above the header"
    elif below:
        what, remedy = "title", "Remove the lines above the header"
    else:
        return
    problem = f"this line is a {what}, {name[:40]!r}, where column names should be"
    raise refuse(problem, remedy, line)


def _foot(bare: bytes, delimiter: str, width: int) -> str:
    """The lines at the end that are no rows of the table: sources, remarks, means."""
    tail = bare[-20_000:].decode("utf-8", errors="ignore")
    lines = tail.splitlines(keepends=True)[1 if len(bare) > 20_000 else 0 :]
    keep = len(lines)
    for number in range(len(lines) - 1, max(len(lines) - _LONGEST_FOOT, 1), -1):
        line = lines[number]
        if not line.strip(_NOTHING):
            # A row without a cell, as a spreadsheet writes it.
            keep = number if line.strip() or keep < len(lines) else keep
            continue
        cells = next(csv.reader([line], delimiter=delimiter), [])
        filled = sum(bool(cell.strip()) for cell in cells)
        first = cells[0].strip() if cells else ""
        words = 0 < filled <= max(width // 2, 1) < width and first and not looks_like_date(first)
        # A row of the table may have few cells too: then one of them is a number or a time.
        held = [cell for cell in cells[1:] if cell.strip()] if len(cells) >= width else []
        row = is_plain_number(first) or any(is_plain_number(c) or looks_like_date(c) for c in held)
        if not ((words and not row) or _SUMMARIES.fullmatch(first)):
            break
        keep = number
    return "".join(lines[keep:])


def _ragged_row(
    refuse: Refuse, rows: Iterator[Row], width: int, reason: str, blanks: bool = False
) -> InputError:
    for line, row in rows:
        if len(row) != width:
            title = "; if lines of a title stand above the column names, remove them"
            remedy = "Give every row as many cells as the header; a missing reading is an empty "
            remedy += f"cell between its delimiters{title if len(row) > width else ''}"
            if blanks:
                remedy = (
                    "The columns are separated by runs of blanks, where an empty cell cannot be"
                )
                remedy += " seen: write NaN for a missing reading, or export the table as CSV"
            return refuse(f"this row has {len(row)} cells, the header has {width}", remedy, line)
    problem = f"the rows cannot be split into cells ({reason[:80]})"
    return refuse(problem, "Look for a quotation mark that is never closed", None)


def csv_writer(
    names: Sequence[str], blocks: Iterable[Sequence[pa.Array]], dialect: Dialect
) -> Writer:
    """Writes a header, and blocks of columns of text one below another."""

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
        text.write(dialect.byte_order_mark + dialect.above)
        for columns in chain([[pa.array([name]) for name in names]], blocks):
            cells = pa.chunked_array(columns)
            odd = pc.match_substring_regex(cells, f'[{dialect.delimiter}"\r\n]')
            if pc.any(odd).as_py():
                doubled = pc.replace_substring(cells, '"', '""')
                quoted = pc.binary_join_element_wise('"', doubled, '"', "")
                columns = pc.if_else(odd, quoted, cells).chunks
            lines = pc.binary_join_element_wise(*columns, dialect.delimiter)
            text.writelines(f"{line}{dialect.line_end}" for line in lines.to_pylist())
        text.write(dialect.below)
        # Leave the file open: it is not yet on the disk.
        text.detach()

    return write
