"""What an idle `gandy up` holds and uses: connections, transactions, processor time, memory."""

from __future__ import annotations
