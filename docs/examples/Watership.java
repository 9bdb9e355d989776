import com.rabbitmq.client.*;
import java.io.*;
import java.util.*;

/**
 * Consumes a queue, and reports to Watership what became of each message.
 *
 * <pre>
 *   Watership.consume(connection, "orders", "watership.report", message -> {
 *     if (!paid(message.body())) throw new Watership.Retry("not paid yet", Map.of("class", "ordering", "delay", 5000));
 *   });
 * </pre>
 *
 * Needs com.rabbitmq:amqp-client 5. See docs/protocol.md.
 */
public final class Watership {
  /** Another attempt, after the delay of the policy or in "delay" milliseconds. */
  public static class Retry extends RuntimeException {
    final Map<String, ?> fields; // error-type, class, delay, progress

    public Retry(String error, Map<String, ?> fields) { super(error); this.fields = fields; }
    String outcome() { return "retry"; }
  }

  /** No further attempt can succeed. */
  public static class Poison extends Retry {
    public Poison(String error, Map<String, ?> fields) { super(error, fields); }
    @Override String outcome() { return "poison"; }
  }

  /** The message cannot be handled now; it waits without losing an attempt. */
  public static class Unavailable extends Retry {
    public Unavailable(String error, Map<String, ?> fields) { super(error, fields); }
    @Override String outcome() { return "unavailable"; }
  }

  public record Message(byte[] body, AMQP.BasicProperties properties, Envelope envelope, int attempt, String progress) {}

  public interface Handler { void handle(Message message) throws Exception; }

  /**
   * Calls the handler for each message. Returning means handled; Retry, Poison and Unavailable mean what
   * they say, and any other exception is a retry.
   */
  public static void consume(Connection connection, String queue, String exchange, Handler handler) throws IOException {
    Channel channel = connection.createChannel();
    channel.basicQos(1);
    channel.confirmSelect();
    boolean[] returned = {false}; // before the confirm of the same report
    channel.addReturnListener(message -> { synchronized (returned) { returned[0] = true; } });
    channel.basicConsume(queue, false, new DefaultConsumer(channel) {
      @Override public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) throws IOException {
        Map<String, Object> headers = properties.getHeaders() == null ? Map.of() : properties.getHeaders();
        int attempt = ((Number) headers.getOrDefault("watership-attempt", 0)).intValue() + 1;
        String progress = headers.getOrDefault("watership-progress", "").toString();
        Map<String, Object> told = outcomeOf(handler, new Message(body, properties, envelope, attempt, progress));
        channel.basicPublish(exchange, queue, true, report(envelope, properties, told), body);
        try {
          channel.waitForConfirmsOrDie(30_000);
        } catch (Exception e) {
          throw new IOException("the report was not stored", e); // which closes the channel
        }
        synchronized (returned) { if (returned[0]) throw new IOException("no queue takes reports of exchange " + exchange); }
        channel.basicAck(envelope.getDeliveryTag(), false);
      }
    });
  }

  static Map<String, Object> outcomeOf(Handler handler, Message message) {
    try {
      handler.handle(message);
      return new HashMap<>(Map.of("outcome", "handled"));
    } catch (Exception e) {
      Map<String, Object> told = new HashMap<>(Map.of("outcome", "retry", "error", String.valueOf(e.getMessage()), "error-type", e.getClass().getSimpleName()));
      if (e instanceof Retry retry) {
        told.putAll(retry.fields);
        told.put("outcome", retry.outcome());
      } else {
        StringWriter stack = new StringWriter();
        e.printStackTrace(new PrintWriter(stack));
        told.put("stack", stack.toString().substring(0, Math.min(8000, stack.toString().length())));
      }
      return told;
    }
  }

  /** The properties of the message with a report. */
  static AMQP.BasicProperties report(Envelope envelope, AMQP.BasicProperties properties, Map<String, Object> told) {
    Map<String, Object> headers = properties.getHeaders() == null ? new HashMap<>() : new HashMap<>(properties.getHeaders());
    told.put("exchange", envelope.getExchange());
    told.put("routing-key", envelope.getRoutingKey());
    if (properties.getExpiration() != null) told.put("expiration", properties.getExpiration()); // the report would expire
    Object deaths = headers.remove("x-death"); // the report would look like a dead letter
    if (deaths != null) told.put("x-death", deaths);
    headers.keySet().removeAll(List.of("CC", "BCC")); // RabbitMQ would route the report by them
    headers.put("watership-report", told);
    return properties.builder().headers(headers).expiration(null).userId(null).build(); // RabbitMQ refuses the user_id of others
  }
}
