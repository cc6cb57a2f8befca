"""The gallery: identify functions of libraries, and compare the results with their source code.

:mod:`..adapters` lists the functions with the encoding that the source of each defines;
``posenc gallery`` identifies them without that declaration and compares.
"""
