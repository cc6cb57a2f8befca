"""Configurations without a rotary encoding, and those of diffusers and timm."""
