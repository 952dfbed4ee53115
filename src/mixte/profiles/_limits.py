"""How much of a file the readers take in, so that no file, honest or hostile, can exhaust the machine.

Every limit is far above what real profiles hold; the figure it is set against stands beside it. Together they
keep a reader below 4 GiB of memory whatever the file contains.
"""

from __future__ import annotations

MIB = 2**20
GIB = 2**30

HEAD_BYTES = 64 * 1024
"""What is looked at to recognise a binary or JSON format. The header of a Kineto trace takes a few kilobytes."""

WINDOW_BYTES = 256 * 1024
"""Files are read forward in windows of this size: what one is decoded to, five times as much, fits a core's cache."""

MAX_UNPACKED_BYTES = 64 * GIB
"""A gzip file that unpacks to more is refused. The largest traces reported by users take a few GiB."""

MAX_EXPANSION = 250
"""A gzip file that unpacks to more than this many times its own size is refused as a decompression bomb.

Real traces expand 10 to 35 times; gzip's own ceiling, reached by a run of equal bytes, is 1032.
"""

EXPANSION_GRACE_BYTES = 16 * MIB
"""Up to this unpacked size the expansion does not matter: so much does no harm."""

MAX_LINE_BYTES = 4 * MIB
"""A longer line belongs to no table. C++ kernel names reach tens of kilobytes, counter tables 100 kilobytes."""

MAX_ELEMENT_BYTES = 64 * MIB
"""One event of a JSON trace, or what stands before and after the events, may take so much."""

MAX_MESSAGE_BYTES = GIB
"""An XPlane file may take so much; protobuf itself allows 2 GiB, TensorFlow warns from far below."""

MAX_LINKED_LAUNCHES = 300_000
"""With more kernel launches, an Nsight Systems file is summed up without looking for the NVTX range of each."""

MAX_LINKED_RANGES = 3_000_000
"""Beyond this number of kernels, CPU operators or NVTX ranges, kernels are summed up without naming operators."""

MAX_ROWS = 1_000_000
"""So many different kernel rows fill about a GiB; further ones are counted as missing."""

MAX_NAME_BYTES = 512 * MIB
"""All different names of kernels and operators, and shapes, may take so much; those of real files take a few MiB."""

MAX_ENTRIES = 2_000_000
"""A plane of an XPlane file may describe so many lines and kinds of events; real ones describe thousands."""

MAX_DAMAGED = 10_000
"""A part of a file with more damaged entries is given up."""

MAX_MODULE_BYTES = 128 * MIB
"""A larger HLO module is not searched for data types."""

MAX_UNPACKED_DATABASE_BYTES = 4 * GIB
"""A packed SQLite file is unpacked to the disk for temporary files, up to this size."""
