"""ggml, the library of llama.cpp: its positional operators, and how one is computed."""
