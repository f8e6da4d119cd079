"""A line of metrics.jsonl, which says by its last key whether it is as it was written."""

import json
import re
import zlib

CRC = 'crc'
END = re.compile(rb', "crc": "[0-9a-f]{8}"}')


def summed(line):
    """A line of JSON with its checksum as last key, and a newline."""
    return b'%s, "%s": "%08x"}\n' % (line[:-1], CRC.encode(), zlib.crc32(line))


def row_of(line):
    """The row of a line, without its checksum. Raises ValueError, TypeError, KeyError or
    AttributeError for a line that is not as it was written."""
    row = json.loads(line)
    int(row['step'])
    given = row.pop(CRC, None)
    # Lines of older versions have none; in them, a text can only be a number.
    for value in row.values():
        float(value)
    if given is not None:
        end = END.search(line)
        whole = end and summed(line[: end.start()] + b'}') == line.rstrip(b'\n') + b'\n'
        if not whole:
            raise ValueError('its checksum does not fit')
    return row
