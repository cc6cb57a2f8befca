"""ONNX models: find and run the rotary parts of a model, and write an encoding as a model."""
