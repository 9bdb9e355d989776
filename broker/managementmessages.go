package broker

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

// postMessage publishes a message and responds whether it was routed.
func postMessage(r *managementRequest) (status int, body any) {
	var d struct {
		Properties map[string]any `json:"properties"`
		RoutingKey string         `json:"routing_key"`
		Payload    string         `json:"payload"`
		Encoding   string         `json:"payload_encoding"`
	}
	if err := r.read(&d, "properties", "routing_key", "payload", "payload_encoding"); err != nil {
		return badRequest(err.Error())
	}
	p, err := propertiesOf(d.Properties)
	if err != nil {
		return badRequest(err.Error())
	}
	payload := []byte(d.Payload)
	if d.Encoding == "base64" {
		if payload, err = base64.StdEncoding.DecodeString(d.Payload); err != nil {
			return badRequest("payload: " + err.Error())
		}
	}
	ch := r.channel()
	ch.incoming = incoming{
		exchange: exchangeName(r.names[0]), key: d.RoutingKey,
		header: p.encode(), body: payload, size: uint64(len(payload)),
	}
	if ch.isTooLarge() {
		return refused(ch.messageTooLarge())
	}
	routed, refusal := ch.publishNow()
	if refusal != nil {
		return refused(refusal)
	}
	return http.StatusOK, view{"routed": routed}
}

// publishNow publishes a message, and reports whether it was routed to a queue.
func (ch *channel) publishNow() (routed bool, err *exception) {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	p, err := ch.routeIncoming()
	if err != nil {
		return false, err
	}
	ch.enqueue(p)
	return len(p.targets) > 0, nil
}

// getRequest is the body of a request for messages. Numbers may be strings.
type getRequest struct {
	Count    json.Number `json:"count"`
	AckMode  string      `json:"ackmode"`
	Encoding string      `json:"encoding"`
	Truncate json.Number `json:"truncate"`
}

func getMessages(r *managementRequest) (status int, body any) {
	var d getRequest
	if err := r.read(&d, "count", "ackmode", "encoding"); err != nil {
		return badRequest(err.Error())
	}
	count, err := d.Count.Int64()
	if err != nil {
		return badRequest("count is " + d.Count.String() + ", expected a number")
	}
	v, known := dispositions()[d.AckMode]
	if !known {
		return badRequest("ackmode is " + d.AckMode + ", expected ack_requeue_true, ack_requeue_false, reject_requeue_true or reject_requeue_false")
	}
	r.vhost.lock()
	defer r.vhost.unlock()
	ch := r.channel()
	q, refusal := ch.queueForGet(r.names[0])
	if refusal != nil {
		return refused(refusal)
	}
	failed := ch.vhost.rabbitmq.isBefore43() || strings.HasPrefix(d.AckMode, "reject")
	views, taken := []view{}, acknowledgement{disposition: v, failed: failed}
	for int64(len(views)) < count {
		e := q.get()
		if e == nil {
			break
		}
		views = append(views, d.view(q, e))
		taken.deliveries = append(taken.deliveries, unackedDelivery{entry: e, queue: q})
	}
	ch.apply(taken)
	return http.StatusOK, views
}

// dispositions are how the deliveries of a get end, by ackmode.
func dispositions() map[string]disposition {
	return map[string]disposition{
		"ack_requeue_true": requeued, "reject_requeue_true": requeued,
		"ack_requeue_false": acknowledged, "reject_requeue_false": rejected,
	}
}

func (d getRequest) view(q *queue, e *entry) view {
	m := e.message
	p, _ := parseProperties(q.headerOf(e)) // it was valid when it was published
	body := m.body
	if most, err := d.Truncate.Int64(); err == nil && most >= 0 {
		body = body[:min(int64(len(body)), most)]
	}
	payload, encoding := string(body), "string"
	if d.Encoding == "base64" || !utf8.Valid(body) {
		payload, encoding = base64.StdEncoding.EncodeToString(body), "base64"
	}
	return view{
		"payload_bytes": len(m.body), "redelivered": e.redelivered, "exchange": m.exchange, "routing_key": m.key(),
		"message_count": q.ready.len(), "properties": p.json(), "payload": payload, "payload_encoding": encoding,
	}
}
