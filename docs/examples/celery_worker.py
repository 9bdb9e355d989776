"""A Celery worker whose failed tasks Watership retries: python3 celery_worker.py AMQP_URL QUEUE

A task that raises is rejected, and goes to the dead-letter exchange of its queue. Watership
returns it to the queue after the delay of the policy, or makes it poison. An existing queue
gets the exchange by `watership routes add QUEUE` instead.
"""
import sys

from celery import Celery
from kombu import Queue

url, queue = sys.argv[1:3]
retries = sys.argv[3] if len(sys.argv) > 3 else "watership.retry"

app = Celery("shop", broker=url)
app.conf.update(
    task_acks_late=True,  # acknowledge a task when it is done
    task_acks_on_failure_or_timeout=False,  # and reject it when it raises
    task_default_queue=queue,
    task_queues=[Queue(queue, queue_arguments={"x-dead-letter-exchange": retries})],
    broker_connection_retry_on_startup=True,
    worker_redirect_stdouts=False,  # the output of tasks is no log
)


@app.task(name="shop.ship")
def ship(order):
    print("ship", order, flush=True)
    raise ValueError("no stock")


if __name__ == "__main__":
    app.worker_main(["worker", "--pool=solo", "--loglevel=WARNING"])
