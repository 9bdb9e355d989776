<?php
// Consume a queue, and report to Watership what became of each message.
//
//   Watership\consume($login, 'orders', function (Watership\Message $message): void {
//       if (!paid($message->envelope->getBody())) {
//           throw new Watership\Retry('not paid yet', ['class' => 'ordering', 'delay' => 5000]);
//       }
//   });
//
// Needs the extension amqp. See docs/protocol.md.
declare(strict_types=1);

namespace Watership;

/** Another attempt, after the delay of the policy or in 'delay' milliseconds. */
class Retry extends \RuntimeException
{
    public const OUTCOME = 'retry';

    /** @param array $fields error-type, class, delay, progress */
    public function __construct(string $error, public array $fields = [])
    {
        parent::__construct($error);
    }
}

/** No further attempt can succeed. */
class Poison extends Retry { public const OUTCOME = 'poison'; }

/** The message cannot be handled now; it waits without losing an attempt. */
class Unavailable extends Retry { public const OUTCOME = 'unavailable'; }

final class Message
{
    public function __construct(public \AMQPEnvelope $envelope, public int $attempt, public string $progress) {}
}

/**
 * Calls $handle(Message) for each message. Returning means handled; Retry, Poison and Unavailable
 * mean what they say, and any other exception is a retry. Reports have a connection of their own.
 * @param array $login of AMQPConnection
 */
function consume(array $login, string $queue, callable $handle, string $exchange = 'watership.report', int $prefetch = 1): void
{
    $from = new \AMQPQueue($channel = new \AMQPChannel(connect($login)));
    $from->setName($queue);
    $channel->qos(0, $prefetch);
    $to = new \AMQPExchange($reports = new \AMQPChannel(connect($login)));
    $to->setName($exchange);
    $reports->confirmSelect();
    $lost = false;
    $lose = function () use (&$lost): bool { $lost = true; return true; };
    $reports->setReturnCallback($lose); // before the confirm
    $reports->setConfirmCallback(fn () => false, fn () => $lose() && false); // false ends waitForConfirm
    $from->consume(function (\AMQPEnvelope $e) use ($from, $to, $reports, $queue, $handle, &$lost): void {
        $headers = $e->getHeaders();
        $message = new Message($e, ($headers['watership-attempt'] ?? 0) + 1, $headers['watership-progress'] ?? '');
        $to->publish($e->getBody(), $queue, AMQP_MANDATORY, report($e, outcomeOf($handle, $message)));
        $reports->waitForConfirm(30); // throws an exception if there is none
        if ($lost) {
            throw new \RuntimeException('the report was not stored');
        }
        $from->ack($e->getDeliveryTag());
    });
}

function connect(array $login): \AMQPConnection
{
    ($connection = new \AMQPConnection($login))->connect();
    return $connection;
}

function outcomeOf(callable $handle, Message $message): array
{
    try {
        $handle($message);
        return ['outcome' => 'handled'];
    } catch (Retry $e) {
        return $e->fields + ['outcome' => $e::OUTCOME, 'error' => $e->getMessage(), 'error-type' => $e::class];
    } catch (\Throwable $e) {
        return ['outcome' => 'retry', 'error' => $e->getMessage(), 'error-type' => $e::class, 'stack' => substr((string) $e, 0, 8000)];
    }
}

/** The attributes of the message with a report. */
function report(\AMQPEnvelope $e, array $told): array
{
    $headers = $e->getHeaders();
    $told += ['exchange' => $e->getExchangeName(), 'routing-key' => $e->getRoutingKey()];
    $told += array_filter(['expiration' => $e->getExpiration(), 'x-death' => $headers['x-death'] ?? '']);
    // RabbitMQ would route by CC and BCC; a report with x-death would look like a dead letter.
    unset($headers['CC'], $headers['BCC'], $headers['x-death']);
    return array_filter([ // no user_id, which RabbitMQ refuses, and no expiration: the report would expire
        'content_type' => $e->getContentType() ?: "\0", // is sent as an empty text; the extension would send text/plain
        'content_encoding' => $e->getContentEncoding(),
        'delivery_mode' => $e->getDeliveryMode(), 'priority' => $e->getPriority(), 'timestamp' => $e->getTimestamp(),
        'correlation_id' => $e->getCorrelationId(), 'reply_to' => $e->getReplyTo(), 'message_id' => $e->getMessageId(),
        'type' => $e->getType(), 'app_id' => $e->getAppId(), 'headers' => ['watership-report' => $told] + $headers,
    ]);
}
