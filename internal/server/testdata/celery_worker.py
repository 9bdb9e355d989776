"""A Celery worker whose task fails, and is rejected: python3 celery_worker.py URL QUEUE EXCHANGE KEY

It sends one task to the exchange first.
"""
import sys

from celery import Celery
from kombu import Exchange, Queue

url, queue, exchange, key = sys.argv[1:]
app = Celery("shop", broker=url)
app.conf.update(
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,
    task_queues=[Queue(queue, no_declare=True)],
    task_default_queue=queue,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="shop.ship")
def ship(order):
    raise ValueError("no stock")


with app.producer_or_acquire() as producer:
    ship.apply_async([7], producer=producer, exchange=Exchange(exchange, no_declare=True), routing_key=key, task_id="task-7")
app.worker_main(["worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"])
