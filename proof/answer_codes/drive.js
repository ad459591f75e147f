// The driver for KafkaJS; see clients.py for what all drivers do.
const { Kafka, logLevel } = require('kafkajs')

const [servers, way, topic, groupId] = process.argv.slice(2)
const say = (what, text) => console.log(what, String(text).replace(/\s+/g, ' '))
const kafka = new Kafka({ clientId: 'drive', brokers: [servers], logLevel: logLevel.NOTHING })

async function produce() {
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  let status = 1
  for (const value of ['one', 'two']) {
    try {
      await producer.send({ topic, messages: [{ value }] })
      say('sent', value)
      status = 0
    } catch (error) {
      say('told', error)
      status = 1
    }
  }
  return status
}

async function consume() {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 500, sessionTimeout: 6000 })
  consumer.on('consumer.crash', ({ payload }) => {
    say('told', payload.error)
    if (!payload.restart) process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve) => {
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const value = message.value.toString()
        say('read', value)
        if (way === 'commit') {
          const offset = String(BigInt(message.offset) + 1n)
          await consumer.commitOffsets([{ topic, partition, offset }])
        }
        if (value === 'last') resolve()
      },
    })
  })
  return 0
}

(way === 'produce' ? produce() : consume()).then(
  (status) => process.exit(status),
  (error) => {
    say('told', error)
    process.exit(1)
  },
)
