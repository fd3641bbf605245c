"""What commands that count words share: find the texts, count their words, say what was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mccgr_cli.cli.job import Job
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.folders import SampleFile, Skipped, count_of, describe_ignored, first_names, name_as_text
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import Loaded, input_errors
from mccgr_cli.files.readers.checks import finish_matrix
from mccgr_cli.system.phases import phase
from mccgr_cli.texts.count import CountedTexts, Vocabulary, count_known, learn_words
from mccgr_cli.texts.find import read_files, texts_in_folder
from mccgr_cli.texts.read import Text
from mccgr_cli.texts.settings import Counting, TextInput
from mccgr_cli.texts.tables import LINES, TABLES, Fields, read_records
from mccgr_cli.workflow.texts import text_contents

if TYPE_CHECKING:
    from mccgr_cli.cli.extract import ImageInput


def count_words(
    job: Job, chosen: ImageInput, texts: TextInput, counting: Counting, known: Vocabulary | None
) -> tuple[Contents, str]:
    """The matrix of texts, by known words or by words that are chosen; and the SHA-256 of the texts."""
    source = chosen.source
    skipped, found, number = find_texts(job, chosen, texts)
    usable = strictly(found, chosen.strict)
    with phase("counting words", "texts", number):
        counted = learn_words(usable, counting, source) if known is None else count_known(usable, known, source)
    counted.skipped[:0] = skipped
    note_texts(job, counted)
    return text_contents(counted, counting if known is None else None), counted.sha256


def find_texts(job: Job, chosen: ImageInput, texts: TextInput) -> tuple[list[Skipped], Iterator[Text], int]:
    """Folders that were skipped, the texts, and how many there are at most (0: not known)."""
    source, named = chosen.source, Fields(texts.text_field, texts.label_field, texts.id_field)
    if source == "-":
        raise ParameterError("--kind", "standard input is a list of images", "name a folder or a file of texts")
    with input_errors(source):
        is_folder = Path(source).is_dir()
        if not is_folder and not Path(source).exists():
            raise DataError(source, "there is no such file or folder", "check its name")
    if not is_folder and source.lower().endswith((*LINES, *TABLES)):
        job.refuse_overwriting([source])
        return [], without_labels(read_records(source, named, texts.max_text), chosen.no_labels), 0
    if named != Fields():
        what = f"{source} is {'a folder' if is_folder else 'one text'}"
        remedy = "leave them out" if is_folder else "leave them out; a table needs the suffix .csv or .tsv"
        raise ParameterError("--text-field, --label-field, --id-field", what, remedy)
    if not is_folder:
        return [], read_files([SampleFile(source, name_as_text(source))], texts.max_text), 1
    collection = texts_in_folder(source, not chosen.no_labels)
    if collection.ignored:
        job.reporter.note(describe_ignored(collection.ignored, "texts"))
    if collection.skipped and chosen.strict:
        raise unusable_text(collection.skipped[0])
    job.refuse_overwriting(text.path for text in collection.texts)
    return collection.skipped, read_files(collection.texts, texts.max_text), len(collection.texts)


def without_labels(texts: Iterable[Text], leave_out: bool) -> Iterator[Text]:
    return (replace(text, label=None) if leave_out else text for text in texts)


def strictly(texts: Iterable[Text], strict: bool) -> Iterator[Text]:
    """The same texts; with ``strict``, the first one that cannot be used is an error."""
    for text in texts:
        if strict and text.fault:
            raise unusable_text(Skipped(text.name, text.fault))
        yield text


def unusable_text(one: Skipped) -> DataError:
    return DataError(one.name, one.reason, "mend or remove it, or leave out --strict")


def note_texts(job: Job, counted: CountedTexts) -> None:
    """Say which texts were skipped, and which words are counted."""
    reasons: dict[str, list[str]] = {}
    for one in counted.skipped:
        reasons.setdefault(one.reason, []).append(one.name)
        job.reporter.detail(f"skipped {one.name}: {one.reason}")
    for reason, names in reasons.items():
        job.reporter.note(f"skipped {count_of(len(names), 'text')}, {reason}: {first_names(names)}")
    if counted.western:
        job.reporter.note(f"{count_of(counted.western, 'text')} not in Unicode: read as Windows-1252 (Latin-1)")
    missing = counted.labels.count(None)
    if 0 < missing < len(counted.labels):
        job.reporter.note(f"labels are left out: {count_of(missing, 'text')} of {len(counted.labels)} without one")
    of_all = f" of {len(counted.names) + len(counted.skipped)}" if counted.skipped else ", all of them"
    job.reporter.note(f"texts used: {len(counted.names)}{of_all}")
    left_out = [f"{number} {reason}" for reason, number in counted.left_out.items() if number]
    others = f"; left out: {', '.join(left_out)}" if left_out else ""
    job.reporter.note(f"{len(counted.vocabulary.words)} words{others}")


def count_like(job: Job, chosen: ImageInput, texts: TextInput, known: Vocabulary) -> Loaded:
    """The matrix of new texts, by the words of another matrix."""
    contents, sha256 = count_words(job, chosen, texts, Counting(), known)
    job.inputs.append(Input(chosen.source, sha256))
    finished = finish_matrix(contents.datasets, False, chosen.source, [])
    return Loaded(replace(contents, datasets=finished), chosen.source, sha256)


def files_of(chosen: ImageInput) -> Sequence[SampleFile]:
    """The files of texts in a source."""
    if Path(chosen.source).is_dir():
        return texts_in_folder(chosen.source, not chosen.no_labels).texts
    return [SampleFile(chosen.source, Path(chosen.source).name)]
