// A service with Spring AMQP whose listener fails. It tries each message twice, and republishes
// it to an error queue: java -cp JARS Spring.java URL QUEUE ERROR_QUEUE
import java.net.URI;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;

public class Spring {
    public static void main(String[] args) {
        var connections = new CachingConnectionFactory(URI.create(args[0]));
        var recoverer = new RepublishMessageRecoverer(new RabbitTemplate(connections), "", args[2]);
        var container = new SimpleMessageListenerContainer(connections);
        container.setQueueNames(args[1]);
        container.setAdviceChain(RetryInterceptorBuilder.stateless().maxAttempts(2).backOffOptions(1, 1, 1).recoverer(recoverer).build());
        container.setMessageListener((MessageListener) message -> {
            throw new IllegalStateException("no stock");
        });
        container.start();
        System.out.println("ready");
    }
}
