"""The rotary classes of the models of ``diffusers``."""
