"""The largest sizes that posenc_ref accepts: the one table of these bounds.

A reader refuses anything larger with a ValueError, before it allocates memory or runs a loop for
it.  The bounds are far above those of published models and recordings.  The first ones hold for
every encoding, wherever its parameters come from.
"""

from __future__ import annotations

#: Heads, and channels of a head or a table: their 50-digit numbers take seconds.
SIZE = 2**16
#: Any other integer: float64 represents all integers up to it.
INTEGER = 2**53
#: A factor of a distance: a product of two of them with a distance is finite.
FACTOR = 2.0**400
#: A divisor of a distance, at least, for the same reason.
DIVISOR = 2.0**-400
#: A factor on cos and sin: finite in float16.
MAGNITUDE = 2.0**15
#: A factor on queries: finite in float32 and bfloat16.
QUERY_FACTOR = 2.0**100
#: The negative power of two that ALiBi's last slope is: a normal number of float64.
MAX_BIAS = 1022.0
#: A position: up to here the error of cos and sin is proved.
POSITION = 2**40
#: Positions in one call.
COUNT = 2**31
#: Elements of a result, 32 GiB in float64.
ELEMENTS = 2**32
#: Elements of a judged result that has less memory than that, such as a broadcast view.
VIEW = 2**26

#: Layers of a model.
LAYERS = 65_536
#: Different kinds of layers in one model.
KINDS = 64
#: Attention heads.
HEADS = SIZE
#: Channels of one head; its frequencies take a second of 50-digit arithmetic.
HEAD_DIM = 16_384
#: Channels of a hidden state, and any other size in a configuration.
WIDTH = 2**24
#: Tokens of a context, and rows of a table.
LENGTH = POSITION
#: Numbers in a learned table that is made for a configuration: half a gibibyte of float64.
TABLE = 2**26

#: Levels of lists and mappings inside each other.
DEPTH = 64
#: Entries of lists and mappings in one document, at all levels together.
ENTRIES = 2**22
#: Bits of an integer.
INTEGER_BITS = 64
#: Characters of a value in a message.
SHOWN = 200
#: Characters of a foreign name or message in a report.
TEXT = 2000
#: Characters of a sentence with a whole encoding in it, and of an error of the command line.
LONG_TEXT = 10_000

#: Bytes of a config.json, of an override, or of any other JSON or TOML document.
DOCUMENT = 2**26
#: Characters of an encoding written as a call, such as ``RoPE(64, layout="half")``.
EXPRESSION = 2**18
#: Bytes of one line of a report or of an index.
LINE = 2**26
#: Bytes of a file of reports, of golden vectors, or of an ONNX model's own file.
FILE = 2**31
#: Bytes of a recorded tensor, or of all tensors of one recording.
TENSORS = 2**34
#: Bytes that an archive of tensors may always unpack to, and as a multiple of its own size.
UNPACKED, RATIO = 2**28, 4
#: Bytes of the header of a .npy file.
HEADER = 4096
#: Bytes of a line that the process of a judged function may write.
ANSWER = 2**28
#: Axes of a recorded tensor.
AXES = 8
#: Entries of the metadata, and tensors, in a GGUF or safetensors file.
RECORDS = 2**17
#: Values of one list in the metadata of a GGUF file: the words of a vocabulary.
VOCABULARY = 2**24
