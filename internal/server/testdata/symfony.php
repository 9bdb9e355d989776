<?php
// A service with Symfony Messenger whose handler fails, and which sends the message to its
// failure transport: php symfony.php URL EXCHANGE KEY QUEUE ERROR_QUEUE json|php
foreach (['Messenger/Bridge/Amqp', 'Messenger', 'Serializer', 'PropertyAccess', 'EventDispatcher', 'ErrorHandler'] as $component) {
    require_once "Symfony/Component/$component/autoload.php";
}

use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\Connection;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Stamp\BusNameStamp;
use Symfony\Component\Messenger\Transport\Serialization\Normalizer\FlattenExceptionNormalizer;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\Serialization\Serializer;
use Symfony\Component\Messenger\Worker;
use Symfony\Component\Serializer\Encoder\JsonEncoder;
use Symfony\Component\Serializer\Normalizer\ArrayDenormalizer;
use Symfony\Component\Serializer\Normalizer\DateTimeNormalizer;
use Symfony\Component\Serializer\Normalizer\ObjectNormalizer;

[, $url, $exchange, $key, $queue, $errors, $format] = $argv;

class Order
{
    public $order;
    public $placed;
    public $paid;

    public function __construct(int $order)
    {
        $this->order = $order;
        $this->placed = $this->paid = 'php' === $GLOBALS['format'] ? new DateTimeImmutable() : null; // the same object twice
    }
}

class Senders implements Psr\Container\ContainerInterface
{
    private $senders;

    public function __construct(array $senders)
    {
        $this->senders = $senders;
    }

    public function get(string $id)
    {
        return $this->senders[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->senders[$id]);
    }
}

$serializer = 'php' === $format ? new PhpSerializer() : new Serializer(new Symfony\Component\Serializer\Serializer(
    [new FlattenExceptionNormalizer(), new DateTimeNormalizer(), new ArrayDenormalizer(), new ObjectNormalizer()], [new JsonEncoder()]
));
$transport = fn (string $exchange, string $type, string $queue, array $keys) => new AmqpTransport(
    Connection::fromDsn($url, ['exchange' => ['name' => $exchange, 'type' => $type], 'queues' => [$queue => ['binding_keys' => $keys]]]), $serializer
);
$orders = $transport($exchange, 'topic', $queue, [$key]);
$failed = $transport($errors, 'fanout', $errors, ['']);

$bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Order::class => [
    function (Order $order) {
        if ('php' === $GLOBALS['format'] && $order->placed !== $order->paid) {
            throw new LogicException('they were one object');
        }
        throw new RuntimeException('no stock');
    },
]]))]);
$dispatcher = new EventDispatcher();
$dispatcher->addSubscriber(new AddErrorDetailsStampListener());
$dispatcher->addSubscriber(new SendFailedMessageToFailureTransportListener(new Senders(['orders' => $failed])));

$orders->send(new Envelope(new Order(7), [new BusNameStamp('commands'), new AmqpStamp($key, AMQP_NOPARAM, ['message_id' => 'order-7'])]));
echo "ready\n";
(new Worker(['orders' => $orders], $bus, $dispatcher))->run(['sleep' => 50000]);
