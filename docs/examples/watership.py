"""Consume a queue, and report to Watership what became of each message.

    def handle(message):
        if not paid(message.body):
            raise Retry("not paid yet", klass="ordering", delay=5000)

    consume(pika.BlockingConnection(...), "orders", handle)

Needs pika 1.x. See docs/protocol.md.
"""
import copy
import traceback

import pika


class Retry(Exception):
    """Another attempt, after the delay of the policy or in delay milliseconds."""

    outcome = "retry"

    def __init__(self, error="", error_type=None, klass=None, delay=None, progress=None):
        super().__init__(error)
        self.fields = {"error-type": error_type, "class": klass, "delay": delay, "progress": progress}


class Poison(Retry):
    """No further attempt can succeed."""

    outcome = "poison"


class Unavailable(Retry):
    """The message cannot be handled now; it waits without losing an attempt."""

    outcome = "unavailable"


class Message:
    def __init__(self, method, properties, body):
        self.method, self.properties, self.body = method, properties, body
        headers = properties.headers or {}
        self.attempt = headers.get("watership-attempt", 0) + 1
        self.progress = headers.get("watership-progress", "")


def consume(connection, queue, handle, exchange="watership.report", prefetch=1):
    """Call handle(message) for each message. Returning means handled; Retry, Poison and
    Unavailable mean what they say, and any other exception is a retry. pika answers no
    heartbeats meanwhile: connect with a heartbeat that is longer than handle takes."""
    channel = connection.channel()
    channel.confirm_delivery()  # basic_publish then raises unless the report is stored
    channel.basic_qos(prefetch_count=prefetch)
    for method, properties, body in channel.consume(queue):
        told = outcome_of(handle, Message(method, properties, body))
        channel.basic_publish(exchange, queue, body, report(method, properties, told), mandatory=True)
        channel.basic_ack(method.delivery_tag)


def outcome_of(handle, message):
    try:
        handle(message)
        return {"outcome": "handled"}
    except Retry as error:
        told = {"error-type": type(error).__name__}
        told.update((name, value) for name, value in error.fields.items() if value is not None)
        return dict(told, outcome=error.outcome, error=str(error))
    except Exception as error:
        stack = traceback.format_exc()[-8000:]
        return {"outcome": "retry", "error": str(error), "error-type": type(error).__name__, "stack": stack}


def report(method, properties, told):
    """The properties of the message with a report."""
    copied = copy.copy(properties)
    copied.headers = dict(properties.headers or {})
    told = dict(told, exchange=method.exchange)
    told["routing-key"] = method.routing_key
    if properties.expiration is not None:  # the report would expire
        told["expiration"] = properties.expiration
    if "x-death" in copied.headers:  # the report would look like a dead letter
        told["x-death"] = copied.headers.pop("x-death")
    for name in ("CC", "BCC"):  # RabbitMQ would route the report by them
        copied.headers.pop(name, None)
    copied.headers["watership-report"] = told
    copied.expiration = copied.user_id = None  # RabbitMQ refuses the user_id of another login
    return copied
