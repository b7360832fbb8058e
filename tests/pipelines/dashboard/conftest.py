"""A pipeline that ran, and a server for it, like those of the service's tests."""

from tests.pipelines.service.conftest import _ran, file, site

__all__ = ["_ran", "file", "site"]
