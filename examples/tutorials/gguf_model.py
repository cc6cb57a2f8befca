"""Write a GGUF file without weights, as a converter does: python gguf_model.py FILE."""

import sys

import gguf
import numpy as np


def write(path, base):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small llama")
    writer.add_block_count(2)
    writer.add_context_length(8192)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(base)
    writer.add_rope_dimension_count(64)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("token_embd.weight", np.zeros((4, 256), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1], base=500000.0)
