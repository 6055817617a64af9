"""Jobs that do nothing but write a line, so that only the database limits their number."""

from __future__ import annotations

import logging

from pydantic import BaseModel

from gandy import Gandy

app = Gandy("parcels")
_log = logging.getLogger("parcels")


class Parcel(BaseModel):
    """One parcel."""

    number: int


@app.train
async def send(parcel: Parcel) -> int:
    """Write a line for every tenth parcel."""
    if parcel.number % 10 == 0:
        _log.warning("parcel %d", parcel.number)
    return parcel.number
