"""Test suites that any implementation of a port can run; shipped so that others can test theirs."""

import pkgutil

import pytest

# Before the suites are imported, so that a failing assert of theirs shows its values wherever they run.
pytest.register_assert_rewrite(*[f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)])
