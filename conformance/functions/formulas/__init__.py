"""The formulas of plain functions, in steps that a wrong implementation may compute differently."""
