// A consumer with Spring AMQP whose failed messages Watership retries:
//
//   java -cp JARS SpringConsumer.java AMQP_URL QUEUE
//
// A message whose listener throws is rejected, and goes to the dead-letter exchange of its
// queue. Watership returns it to the queue after the delay of the policy, or makes it poison.
// An existing queue gets the exchange by `watership routes add QUEUE` instead. With Spring Boot,
// the setting is spring.rabbitmq.listener.simple.default-requeue-rejected=false.
import java.net.URI;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;

public class SpringConsumer {
    public static void main(String[] args) {
        var retries = args.length > 2 ? args[2] : "watership.retry";
        var connections = new CachingConnectionFactory(URI.create(args[0]));
        new RabbitAdmin(connections).declareQueue(QueueBuilder.durable(args[1]).deadLetterExchange(retries).build());

        var container = new SimpleMessageListenerContainer(connections);
        container.setQueueNames(args[1]);
        container.setDefaultRequeueRejected(false); // or the message returns at once, for ever
        container.setMessageListener((MessageListener) message -> {
            System.out.println("ship " + new String(message.getBody()));
            throw new IllegalStateException("no stock");
        });
        container.start();
    }
}
