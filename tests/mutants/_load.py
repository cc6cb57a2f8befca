"""Import all modules of a folder of implementations."""

import importlib
import pkgutil


def load(package, places):
    """Import the modules of a package, in alphabetical order: each files its cases."""
    for module in pkgutil.iter_modules(places):
        importlib.import_module(f"{package}.{module.name}")
