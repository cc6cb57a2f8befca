"""Encodings of whole models: presets, configurations and GGUF files."""
