"""Read and write the bytes of protocol buffers, the encoding of ONNX files.

A message is a sequence of fields. A field has a number and a value: a whole number, or bytes (a text, an array, another
message). Nothing is copied while reading, and every length is checked against the bytes that are there, because model
files are not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Value = int | memoryview
Field = tuple[int, Value, memoryview]  # its number, its value, and all bytes of the field

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # how a value is written
LONGEST_VARINT = 10  # bytes


class Malformed(ValueError):
    """The bytes are not a protocol buffer."""


def fields(message: memoryview) -> Iterator[Field]:
    """All fields of a message, in their order."""
    place = 0
    while place < len(message):
        start = place
        key, place = read_varint(message, place)
        number, wire = key >> 3, key & 7
        value: Value
        if wire == VARINT:
            value, place = read_varint(message, place)
        else:
            if wire == BYTES:
                length, place = read_varint(message, place)
            elif wire in (FIXED_64, FIXED_32):
                length = 8 if wire == FIXED_64 else 4
            else:
                raise Malformed(f"a field of unknown type {wire}")
            value = message[place : place + length]
            place += length
            if place > len(message):
                raise Malformed("a field is longer than its message")
        if number == 0:
            raise Malformed("a field with the number 0")
        yield number, value, message[start:place]


def read_varint(message: memoryview, place: int) -> tuple[int, int]:
    """A whole number at a place, and the place behind it."""
    value = 0
    for i, byte in enumerate(message[place : place + LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, place + i + 1
    raise Malformed("a number without an end")


def numbers_in(value: Value) -> Iterator[int]:
    """Whole numbers of a repeated field, which may be written one by one or packed into bytes."""
    if isinstance(value, int):
        yield value
        return
    place = 0
    while place < len(value):
        number, place = read_varint(value, place)
        yield number


def message_in(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Malformed("a number where a message should be")
    return value


def text_in(value: Value) -> str:
    try:
        return str(message_in(value), "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a name that is not UTF-8") from None


def field(number: int, value: int | str | bytes) -> bytes:
    """The bytes of one field."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def message(*parts: tuple[int, int | str | bytes | Iterable[bytes]]) -> bytes:
    """A message of these fields; a value may be several messages, which repeat the field."""
    written = bytearray()
    for number, value in parts:
        for one in [value] if isinstance(value, (int, str, bytes)) else value:
            written += field(number, one)
    return bytes(written)


def varint(value: int) -> bytes:
    """
    >>> varint(300).hex()
    'ac02'
    """
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
