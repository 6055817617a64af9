"""MetadataCleanup: deletes the finished runs of trains that run all the time, Gandy's own first of all."""

from __future__ import annotations
