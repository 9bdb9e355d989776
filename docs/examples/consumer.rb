# A consumer in Ruby whose failed messages Watership retries: ruby consumer.rb AMQP_URL QUEUE
#
# A message whose block raises is rejected, and goes to the dead-letter exchange of its queue.
# Watership returns it to the queue after the delay of the policy, or makes it poison. An
# existing queue gets the exchange by `watership routes add QUEUE` instead.
require "bunny"

url, name, retries = ARGV
channel = Bunny.new(url).start.create_channel
channel.prefetch(10)
queue = channel.queue(name, durable: true, arguments: { "x-dead-letter-exchange" => retries || "watership.retry" })

def ship(order)
  puts "ship #{order}"
  $stdout.flush
  raise "no stock"
end

queue.subscribe(manual_ack: true, block: true) do |delivery, _properties, body|
  begin
    ship(body)
    channel.ack(delivery.delivery_tag)
  rescue StandardError
    channel.reject(delivery.delivery_tag, false)
  end
end
