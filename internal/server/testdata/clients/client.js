// usage: client.js AMQP_URL QUEUE EXCHANGE
// It does what the bodies of its messages say, and prints each delivery as JSON.
'use strict';
const amqplib = require('amqplib');
const { consume, Retry, Poison, Unavailable } = require(process.env.WATERSHIP_CLIENT);

const [url, queue, exchange] = process.argv.slice(2);
const seen = {};

function handle(message) {
  const { messageId: name, headers } = message.properties;
  seen[name] = (seen[name] || 0) + 1;
  const { outcome, error, ...fields } = JSON.parse(message.content)[seen[name] - 1];
  console.log(JSON.stringify({
    message_id: name, attempt: message.attempt, progress: message.progress,
    routing_key: message.fields.routingKey, tenant: headers.tenant,
  }));
  if (outcome === 'exception') throw new RangeError('unexpected');
  const Of = { retry: Retry, poison: Poison, unavailable: Unavailable }[outcome];
  if (Of) throw new Of(error || '', fields);
}

(async () => {
  const connection = await amqplib.connect(url);
  connection.on('error', (error) => { console.error(error); process.exit(1); });
  await consume(connection, queue, handle, { exchange });
})();
