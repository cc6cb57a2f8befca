"""Name a mistake by predicting its output, whatever the encoding."""
