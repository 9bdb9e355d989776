"""Uses the client that openapi-python-client generates from docs/openapi.json."""
import sys

from watership_client import AuthenticatedClient
from watership_client.api.events import count_events, search_events
from watership_client.api.failures import group_failures
from watership_client.api.messages import publish_message
from watership_client.api.replays import plan_replay
from watership_client.models import Problem, Properties, Publication, Replay, Target, TargetKind

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
sent = publish_message.sync(
    client=client,
    body=Publication(exchange="shop", routing_key="other", text="hi", properties=Properties(message_id="python")),
)
assert sent.message_id == "python", sent
page = search_events.sync(client=client, query="action: poisoned", limit=1)
assert page.events[0].watership.queue == "orders", page
assert count_events.sync(client=client, query="action: poisoned").count == 1
assert group_failures.sync(client=client).failures == 1
plan = plan_replay.sync(client=client, body=Replay(query="action: poisoned", target=Target(kind=TargetKind.FAILED_QUEUE)))
assert plan.matched == 1, plan
problem = search_events.sync(client=client, query="acton: poisoned")
assert isinstance(problem, Problem) and problem.status == 400 and problem.position.offset == 0, problem
print("ok")
