"""The gallery: identify functions of libraries, and compare the results with their source code.

:mod:`..adapters` lists the functions, each with the encoding that its source defines.
"""
