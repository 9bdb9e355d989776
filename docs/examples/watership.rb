# Consume a queue, and report to Watership what became of each message.
#
#   Watership.consume(Bunny.new(url).start, "orders") do |message|
#     raise Watership::Retry.new("not paid yet", "class" => "ordering", "delay" => 5000) unless paid?(message.body)
#   end
#
# Needs bunny 2.19 or newer. See docs/protocol.md.
require "bunny"

module Watership
  # Another attempt, after the delay of the policy or in "delay" milliseconds.
  class Retry < StandardError
    attr_reader :fields # error-type, class, delay, progress

    def initialize(error = "", fields = {})
      super(error)
      @fields = fields
    end

    def outcome = "retry"
  end

  # No further attempt can succeed.
  class Poison < Retry
    def outcome = "poison"
  end

  # The message cannot be handled now; it waits without losing an attempt.
  class Unavailable < Retry
    def outcome = "unavailable"
  end

  Message = Struct.new(:delivery, :properties, :body, :attempt, :progress)

  # Calls the block for each message, and does not return. Returning means handled; Retry, Poison
  # and Unavailable mean what they say, and any other StandardError is a retry. A report that is
  # not stored raises: close the connection, so that RabbitMQ delivers its message again.
  def self.consume(connection, queue, exchange: "watership.report", prefetch: 10, &handle)
    channel = connection.create_channel
    channel.confirm_select
    channel.prefetch(prefetch)
    returned = false
    reports = channel.exchange(exchange, passive: true)
    reports.on_return { returned = true } # before the confirm of the same report
    deliveries = Thread::Queue.new # as Bunny only logs what is raised in a subscription
    deleted = ->(_) { deliveries.close }
    channel.queue(queue, passive: true).subscribe(manual_ack: true, on_cancellation: deleted) { |*one| deliveries << one }
    while (delivery, properties, body = deliveries.pop)
      headers = properties[:headers] || {}
      message = Message.new(delivery, properties, body, headers.fetch("watership-attempt", 0) + 1, headers.fetch("watership-progress", ""))
      told = report(delivery, properties, outcome_of(message, handle))
      reports.publish(body, told.merge(routing_key: queue, mandatory: true))
      raise "exchange #{exchange} has not taken the report" if !channel.wait_for_confirms || returned

      channel.ack(delivery.delivery_tag)
    end
    raise "queue #{queue} was deleted"
  end

  def self.outcome_of(message, handle)
    handle.call(message)
    { "outcome" => "handled" }
  rescue Retry => error
    { "error-type" => error.class.name, **error.fields.compact, "outcome" => error.outcome, "error" => error.message }
  rescue StandardError => error
    { "outcome" => "retry", "error" => error.message, "error-type" => error.class.name, "stack" => error.full_message(highlight: false)[0, 8000] }
  end

  # The properties of the message with a report. RabbitMQ would route by CC and BCC, refuses the
  # user_id of another login, and would drop a report that expires.
  def self.report(delivery, properties, told)
    headers = (properties[:headers] || {}).dup
    told = told.merge("exchange" => delivery.exchange, "routing-key" => delivery.routing_key)
    told["expiration"] = properties[:expiration] if properties[:expiration]
    deaths = headers.delete("x-death")
    told["x-death"] = deaths if deaths
    headers.delete("CC")
    headers.delete("BCC")
    copied = properties.to_hash.reject { |name, _| %i[expiration user_id].include?(name) }
    copied[:content_type] ||= "" # for which Bunny would write one of its own
    copied[:timestamp] = copied[:timestamp].to_i if copied[:timestamp] # Bunny reads a Time and writes a number
    copied.merge(headers: headers.merge("watership-report" => told))
  end
  private_class_method :outcome_of, :report
end
