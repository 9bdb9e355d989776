<?php
// usage: client.php AMQP_URL QUEUE EXCHANGE
// It does what the bodies of its messages say, and prints each delivery as JSON.
declare(strict_types=1);
require getenv('WATERSHIP_CLIENT');

[, $url, $queue, $exchange] = $argv;
$u = parse_url($url);
$login = [
    'host' => $u['host'], 'port' => $u['port'], 'login' => rawurldecode($u['user']), 'password' => rawurldecode($u['pass']),
    'vhost' => rawurldecode(substr($u['path'] ?? '', 1)) ?: '/',
];
$seen = [];
Watership\consume($login, $queue, function (Watership\Message $message) use (&$seen): void {
    $name = $message->envelope->getMessageId();
    $seen[$name] = ($seen[$name] ?? 0) + 1;
    $step = json_decode($message->envelope->getBody(), true)[$seen[$name] - 1];
    echo json_encode([
        'message_id' => $name, 'attempt' => $message->attempt, 'progress' => $message->progress,
        'routing_key' => $message->envelope->getRoutingKey(), 'tenant' => $message->envelope->getHeaders()['tenant'],
    ]), "\n";
    ['outcome' => $outcome] = $step;
    $error = $step['error'] ?? '';
    $fields = array_diff_key($step, ['outcome' => 1, 'error' => 1]);
    match ($outcome) {
        'handled' => null,
        'retry' => throw new Watership\Retry($error, $fields),
        'poison' => throw new Watership\Poison($error, $fields),
        'unavailable' => throw new Watership\Unavailable($error, $fields),
        'exception' => throw new LogicException('unexpected'),
    };
}, $exchange, 10);
