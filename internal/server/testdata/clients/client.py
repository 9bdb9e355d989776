"""usage: client.py AMQP_URL QUEUE EXCHANGE

It does what the bodies of its messages say, and prints each delivery as JSON.
"""
import json
import sys

import pika

from watership import Poison, Retry, Unavailable, consume

url, queue, exchange = sys.argv[1:]
seen = {}


def handle(message):
    steps = json.loads(message.body)
    name = message.properties.message_id
    step = steps[seen.setdefault(name, 0)]
    seen[name] += 1
    print(json.dumps({
        "message_id": name, "attempt": message.attempt, "progress": message.progress,
        "routing_key": message.method.routing_key, "tenant": message.properties.headers["tenant"],
    }), flush=True)
    outcome = step.pop("outcome")
    if outcome == "handled":
        return
    if outcome == "exception":
        raise ArithmeticError("unexpected")
    of = {"retry": Retry, "poison": Poison, "unavailable": Unavailable}[outcome]
    raise of(step.get("error", ""), step.get("error-type"), step.get("class"), step.get("delay"), step.get("progress"))


consume(pika.BlockingConnection(pika.URLParameters(url)), queue, handle, exchange, prefetch=10)
