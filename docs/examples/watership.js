// Consume a queue, and report to Watership what became of each message.
//
//   await consume(await amqplib.connect(url), 'orders', async (message) => {
//     if (!(await paid(message.content))) throw new Retry('not paid yet', { class: 'ordering', delay: 5000 });
//   });
//
// Needs amqplib 0.10. See docs/protocol.md.
'use strict';

/** Another attempt, after the delay of the policy or in fields.delay milliseconds. */
class Retry extends Error {
  // fields: error-type, class, delay, progress
  constructor(error, fields = {}) {
    super(error);
    this.outcome = 'retry';
    this.fields = fields;
  }
}

/** No further attempt can succeed. */
class Poison extends Retry {
  constructor(error, fields) {
    super(error, fields);
    this.outcome = 'poison';
  }
}

/** The message cannot be handled now; it waits without losing an attempt. */
class Unavailable extends Retry {
  constructor(error, fields) {
    super(error, fields);
    this.outcome = 'unavailable';
  }
}

/**
 * Calls handle(message) for each message, up to prefetch at once. Returning means handled; Retry,
 * Poison and Unavailable mean what they say, and any other error is a retry. A report that is
 * not stored closes the channel, so that RabbitMQ delivers its message again.
 */
async function consume(connection, queue, handle, { exchange = 'watership.report', prefetch = 10 } = {}) {
  const channel = await connection.createConfirmChannel();
  await channel.prefetch(prefetch);
  let returned = false;
  channel.on('return', () => { returned = true; }); // before the confirm of the same report
  let reports = Promise.resolve(); // one after the other, so that a return belongs to one
  const publish = (message, told) => new Promise((resolve, reject) => {
    returned = false;
    channel.publish(exchange, queue, message.content, report(message, told), (error) => {
      if (error || returned) reject(error || new Error(`no queue takes reports of exchange ${exchange}`));
      else resolve(channel.ack(message));
    });
  });
  await channel.consume(queue, async (message) => {
    if (message === null) return connection.emit('error', new Error(`queue ${queue} was deleted`));
    const headers = message.properties.headers || {};
    message.attempt = (headers['watership-attempt'] || 0) + 1;
    message.progress = headers['watership-progress'] || '';
    const told = await outcomeOf(handle, message);
    reports = reports.then(() => publish(message, told));
    reports.catch((error) => connection.emit('error', error));
  });
  return channel;
}

async function outcomeOf(handle, message) {
  try {
    await handle(message);
    return { outcome: 'handled' };
  } catch (error) {
    const told = { outcome: error.outcome || 'retry', error: String(error.message), 'error-type': error.constructor.name };
    if (error instanceof Retry) return { ...told, ...error.fields };
    return { ...told, stack: String(error.stack).slice(0, 8000) };
  }
}

// The options of the message with a report. RabbitMQ would route by CC and BCC, refuses the
// user_id of another login, and would drop a report that expires.
function report({ fields, properties }, told) {
  const { CC, BCC, 'x-death': deaths, ...headers } = properties.headers || {};
  const whole = { ...told, exchange: fields.exchange, 'routing-key': fields.routingKey };
  if (properties.expiration !== undefined) whole.expiration = properties.expiration;
  if (deaths !== undefined) whole['x-death'] = deaths;
  headers['watership-report'] = whole;
  return { ...properties, headers, expiration: undefined, userId: undefined, mandatory: true };
}

module.exports = { consume, Retry, Poison, Unavailable };
