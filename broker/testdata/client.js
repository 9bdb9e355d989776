// An ordinary amqplib program: publish, consume, reject, be told of a return, ask.
'use strict'
const assert = require('assert')
const amqplib = require('amqplib')

async function main(url) {
  const connection = await amqplib.connect(url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue('node.dead', { durable: true })
  await channel.assertQueue('node.work', {
    durable: true,
    deadLetterExchange: '',
    deadLetterRoutingKey: 'node.dead',
  })
  await channel.assertExchange('node.topic', 'topic')
  await channel.bindQueue('node.work', 'node.topic', 'order.*')

  const headers = { tenant: 'a', n: 7, nested: { list: [1, 'two', null, true] } }
  for (const body of ['good', 'bad']) {
    channel.publish('node.topic', 'order.created', Buffer.from(body), { headers, messageId: 'm-1', persistent: true })
  }
  const returned = new Promise((resolve) => channel.once('return', resolve))
  channel.publish('node.topic', 'nowhere', Buffer.from('lost'), { mandatory: true })
  await channel.waitForConfirms()
  assert.strictEqual((await returned).fields.replyCode, 312)

  await channel.prefetch(1)
  await new Promise((resolve, reject) => {
    channel.consume('node.work', (message) => {
      try {
        assert.deepStrictEqual({ ...message.properties.headers }, headers)
        if (message.content.toString() === 'good') return channel.ack(message)
        channel.nack(message, false, false)
        resolve()
      } catch (error) {
        reject(error)
      }
    })
  })

  let dead = false
  while (!dead) dead = await channel.get('node.dead', { noAck: true })
  assert.strictEqual(dead.content.toString(), 'bad')
  const death = dead.properties.headers['x-death'][0]
  assert.deepStrictEqual([death.queue, death.reason, death.count], ['node.work', 'rejected', 1])

  const other = await connection.createChannel()
  other.on('error', () => {})
  await assert.rejects(other.checkQueue('missing'), /404/)
  for (const queue of ['node.work', 'node.dead']) await channel.deleteQueue(queue)
  await channel.deleteExchange('node.topic')

  // A question and its answer, by direct reply-to.
  const question = await channel.assertQueue('', { exclusive: true })
  const answer = new Promise((resolve) => {
    channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true }).then(() =>
      channel.sendToQueue(question.queue, Buffer.from('why?'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '1' }))
  })
  let asked = false
  while (!asked) asked = await channel.get(question.queue, { noAck: true })
  channel.sendToQueue(asked.properties.replyTo, Buffer.from('because'), { correlationId: asked.properties.correlationId })
  assert.strictEqual((await answer).content.toString(), 'because')

  await connection.updateSecret(Buffer.from('guest'), 'it is time')
  await connection.close()
  console.log('ok')
}

main(process.argv[2]).catch((error) => {
  console.error(error)
  process.exit(1)
})
