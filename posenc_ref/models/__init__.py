"""The encodings of models, from presets, configurations and GGUF files."""
