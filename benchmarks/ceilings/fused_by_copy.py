"""t3m with COPY instead of unnest for enqueueing."""

from __future__ import annotations

from benchmarks.ceilings.fused import FusedByCopy
from benchmarks.protocol import serve

if __name__ == "__main__":
    serve(FusedByCopy())
