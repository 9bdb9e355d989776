"""A service in another language that rejects whatever it gets.

usage: reject.py AMQP_URL QUEUE DEAD_LETTER_EXCHANGE

It declares its queue with our exchange for dead letters, prints "ready", and
then a line of JSON for each delivery.
"""
import json
import sys

import pika

url, queue, dead_letters = sys.argv[1:]
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.queue_declare(
    queue, durable=True,
    arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": dead_letters},
)
print("ready", flush=True)


def reject(channel, method, properties, body):
    headers = properties.headers or {}
    print(json.dumps({
        "routing_key": method.routing_key,
        "message_id": properties.message_id,
        "body": body.decode(),
        "tenant": headers.get("tenant"),
        "number": headers.get("number"),
        "attempt": headers.get("watership-attempt", 0),
    }), flush=True)
    channel.basic_reject(method.delivery_tag, requeue=False)


channel.basic_consume(queue, reject)
channel.start_consuming()
