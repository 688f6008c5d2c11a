"""A tiktoken plug-in: the o200k_base encoding from ranks in the stackmem package, under a name of its own.

tiktoken's ``o200k_base`` downloads its ranks; ``stackmem_o200k_base`` gives the same tokens and never does.
"""

from stackmem.models.tokens import o200k_encoding

ENCODING_CONSTRUCTORS = {"stackmem_o200k_base": o200k_encoding}
