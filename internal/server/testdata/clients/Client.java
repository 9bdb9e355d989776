import com.rabbitmq.client.*;
import java.util.*;
import java.util.regex.*;

/**
 * usage: Client AMQP_URL QUEUE EXCHANGE
 *
 * <p>It does what the bodies of its messages say, and prints each delivery as JSON.
 */
public final class Client {
  public static void main(String[] args) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(args[0]);
    Map<String, Integer> seen = new HashMap<>();
    Watership.consume(factory.newConnection(), args[1], args[2], message -> {
      String name = message.properties().getMessageId();
      int n = seen.merge(name, 1, Integer::sum);
      Map<String, Object> step = step(new String(message.body(), "UTF-8"), n - 1);
      System.out.printf("{\"message_id\":\"%s\",\"attempt\":%d,\"progress\":\"%s\",\"routing_key\":\"%s\",\"tenant\":\"%s\"}%n",
          name, message.attempt(), message.progress(), message.envelope().getRoutingKey(), message.properties().getHeaders().get("tenant"));
      String outcome = (String) step.remove("outcome");
      String error = String.valueOf(step.getOrDefault("error", ""));
      step.remove("error");
      switch (outcome) {
        case "retry": throw new Watership.Retry(error, step);
        case "poison": throw new Watership.Poison(error, step);
        case "unavailable": throw new Watership.Unavailable(error, step);
        case "exception": throw new ArithmeticException("unexpected");
        default:
      }
    });
  }

  // The JDK has no JSON. A body is an array of objects with texts and numbers.
  private static Map<String, Object> step(String body, int n) {
    Matcher object = Pattern.compile("\\{[^}]*\\}").matcher(body);
    for (int i = 0; i <= n; i++) object.find();
    Map<String, Object> step = new HashMap<>();
    Matcher field = Pattern.compile("\"([^\"]+)\":(?:\"([^\"]*)\"|(\\d+))").matcher(object.group());
    while (field.find()) step.put(field.group(1), field.group(2) != null ? field.group(2) : (Object) Integer.valueOf(field.group(3)));
    return step;
  }
}
