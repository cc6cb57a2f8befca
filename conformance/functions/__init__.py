"""Judge plain functions, such as position ids, against those of ``posenc_ref``."""
