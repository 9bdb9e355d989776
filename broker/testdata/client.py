"""An ordinary pika program: publish, consume, reject, be told of a return, ask, commit."""
import sys

import pika

connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("pika.dead", durable=True)
channel.queue_declare(
    "pika.work",
    durable=True,
    arguments={
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "pika.dead",
    },
)
channel.exchange_declare("pika.topic", "topic", durable=True)
channel.queue_bind("pika.work", "pika.topic", "order.*")

properties = pika.BasicProperties(
    content_type="text/plain",
    delivery_mode=2,
    message_id="m-1",
    headers={"tenant": "a", "n": 7, "nested": {"list": [1, "two", None, True]}},
)
for body in (b"good", b"bad"):
    channel.basic_publish("pika.topic", "order.created", body, properties, mandatory=True)
try:
    channel.basic_publish("pika.topic", "nowhere", b"lost", mandatory=True)
    raise SystemExit("nothing was returned")
except pika.exceptions.UnroutableError as error:
    assert error.messages[0].method.reply_code == 312, error

channel.basic_qos(prefetch_count=1)
for method, received, body in channel.consume("pika.work", inactivity_timeout=10):
    assert method is not None, "nothing came"
    assert received.headers == properties.headers, received.headers
    if body == b"good":
        channel.basic_ack(method.delivery_tag)
        continue
    channel.basic_reject(method.delivery_tag, requeue=False)
    break
channel.cancel()

method, received, body = channel.basic_get("pika.dead", auto_ack=True)
assert body == b"bad", body
death = received.headers["x-death"][0]
assert (death["queue"], death["reason"], death["count"]) == ("pika.work", "rejected", 1), death
assert received.headers["nested"] == properties.headers["nested"], received.headers

try:
    connection.channel().queue_declare("missing", passive=True)
    raise SystemExit("a missing queue was found")
except pika.exceptions.ChannelClosedByBroker as error:
    assert error.reply_code == 404, error
for queue in ("pika.work", "pika.dead"):
    channel.queue_delete(queue)
channel.exchange_delete("pika.topic")
# A question and its answer, by direct reply-to.
asking, answers = connection.channel(), []
asking.basic_consume("amq.rabbitmq.reply-to", lambda *delivery: answers.append(delivery), auto_ack=True)
question = asking.queue_declare("", exclusive=True).method.queue
asking.basic_publish("", question, b"why?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1"))
_, received, body = channel.basic_get(question, auto_ack=True)
channel.basic_publish("", received.reply_to, b"because", pika.BasicProperties(correlation_id=received.correlation_id))
while not answers:
    connection.process_data_events(1)
assert (answers[0][3], answers[0][2].correlation_id) == (b"because", "1"), answers

# A transaction.
work = connection.channel()
work.tx_select()
work.basic_publish("", question, b"dropped")
work.tx_rollback()
work.basic_publish("", question, b"kept")
work.tx_commit()
assert channel.basic_get(question, auto_ack=True)[2] == b"kept"
connection.close()
print("ok")
