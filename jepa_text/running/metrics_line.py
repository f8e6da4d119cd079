"""The lines of metrics.jsonl: JSON objects whose last key is a checksum."""

import json
import re
import zlib

CRC = 'crc'
DAMAGE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
END = re.compile(rb', "crc": "[0-9a-f]{8}"}')


def with_checksum(line):
    """Appends the checksum of a line of JSON as its last key, and a newline."""
    return b'%s, "%s": "%08x"}\n' % (line[:-1], CRC.encode(), zlib.crc32(line))


def parse(line):
    """The row of a line, without its checksum.

    Raises one of DAMAGE for a damaged line.
    """
    row = json.loads(line)
    int(row['step'])
    crc = row.pop(CRC, None)
    # Lines of older versions have no checksum; in these, strings can only be numbers.
    for value in row.values():
        float(value)
    if crc is not None:
        end = END.search(line)
        expected = end and with_checksum(line[: end.start()] + b'}')
        if expected != line.rstrip(b'\n') + b'\n':
            raise ValueError('its checksum does not match')
    return row
