# usage: client.rb AMQP_URL QUEUE EXCHANGE
# It does what the bodies of its messages say, and prints each delivery as JSON.
require "json"
require ENV.fetch("WATERSHIP_CLIENT")

url, queue, exchange = ARGV
seen = Hash.new(0)
Watership.consume(Bunny.new(url).start, queue, exchange: exchange) do |message|
  name = message.properties[:message_id]
  step = JSON.parse(message.body)[seen[name]]
  seen[name] += 1
  puts JSON.generate(
    message_id: name, attempt: message.attempt, progress: message.progress,
    routing_key: message.delivery.routing_key, tenant: message.properties[:headers]["tenant"]
  )
  $stdout.flush
  outcome = step.delete("outcome")
  error = step.delete("error")
  case outcome
  when "retry" then raise Watership::Retry.new(error, step)
  when "poison" then raise Watership::Poison.new(error, step)
  when "unavailable" then raise Watership::Unavailable.new(error, step)
  when "exception" then raise ZeroDivisionError, "unexpected"
  end
end
