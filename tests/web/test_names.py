"""No request makes a group whose name misleads a person who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

API = "/api/v1"
MISLEADING = {
    "a control character": "pay\x1b[2Jroll",
    "a line break": "pay\nroll",
    "another direction": "pay\u202ellor",
    "an isolate": "pay\u2066roll\u2069",
    "no width": "pay\u200broll",
    "an invisible letter": "pay\u3164roll",
    "a variation": "payroll\ufe0f",
    "another normal form": "cafe\u0301",
    "private use": "pay\ue000roll",
}


@pytest.mark.parametrize("name", MISLEADING.values(), ids=MISLEADING)
async def test_a_misleading_name_of_a_group_is_refused(client: httpx.AsyncClient, name: str) -> None:
    queued = await client.post(
        f"{API}/queue/enqueue", json={"train": "send_parcel", "input": {"address": "harbour"}, "group": name}
    )
    manifests = (await client.get(f"{API}/manifests")).json()["items"]
    moved = await client.post(f"{API}/manifests/{manifests[0]['external_id']}/set", json={"group": name})
    groups = (await client.get(f"{API}/groups", params={"limit": 500})).json()["items"]

    assert (queued.status_code, moved.status_code) == (422, 422), queued.text + moved.text
    assert "group" in queued.text
    assert name not in {group["name"] for group in groups}
