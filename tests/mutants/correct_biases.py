"""Correct biases."""
