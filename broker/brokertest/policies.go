package brokertest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

func managedPolicies(m *management) {
	path := "/policies/%2F/NAME"
	limit := `{"pattern":"^NAME","apply-to":"queues","priority":3,"definition":{"max-length":5}}`
	m.expectResponse("PUT", path, limit, 201, "")
	m.expectResponse("PUT", path, limit, 204, "")
	want := `{"vhost":"/","name":"NAME","pattern":"^NAME","apply-to":"queues","priority":3,"definition":{"max-length":5}}`
	m.expectResponse("GET", path, "", 200, want)
	_, _, listed := m.request("GET", "/policies/%2F", "")
	if !strings.Contains(listed, m.object) {
		m.Errorf("the policies are %s", listed)
	}
	m.expectResponse("PUT", path, `{"pattern":"^NAME","definition":{"alternate-exchange":"x","max-length":5}}`, 204, "")
	m.expectResponse("GET", path, "", 200, `{"apply-to":"all","priority":0,"definition":{"alternate-exchange":"x","max-length":5}}`)
	m.expectResponse("DELETE", path, "", 204, "")
	m.expectResponse("DELETE", path, "", 404, `{"error":"Object Not Found","reason":"Not Found"}`)
	m.expectResponse("GET", path, "", 404, "")
	m.expectResponse("PUT", "/policies/none/NAME", limit, 404, "")
	for body, reason := range map[string]string{
		`no JSON`:                                       "not_json",
		`{"pattern":"^q"}`:                              "[{key_missing,definition}]",
		`{"definition":{}}`:                             "[{key_missing,pattern}]",
		`{"pattern":"^q","definition":{}}`:              "no policy provided",
		policyOf(`"max-length":-1`):                     "-1 is not a valid maximum length",
		policyOf(`"max-length":1.5`):                    "1.5 is not a valid maximum length",
		policyOf(`"max-length-bytes":-1`):               "-1 is not a valid maximum length in bytes",
		policyOf(`"message-ttl":-1`):                    "-1 is not a valid message TTL",
		policyOf(`"expires":0`):                         "0 is not a valid queue expiry",
		policyOf(`"overflow":1`):                        "1 is not a valid overflow value",
		policyOf(`"overflow":"drop"`):                   "is not a valid overflow value",
		policyOf(`"alternate-exchange":1`):              "1 is not a valid alternate exchange name",
		policyOf(`"dead-letter-exchange":1`):            "1 is not a valid dead letter exchange name",
		policyOf(`"delivery-limit":"x"`):                "is not a valid delivery limit",
		policyOf(`"x-max-length":1`):                    "are not recognised policy settings",
		policyOf(`"dead-letter-routing-key":1`):         "1 is not a valid dead letter routing key",
		`{"pattern":"(","definition":{"max-length":5}}`: "pattern should be regular expression but is invalid",
		`{"pattern":"^q","definition":{"max-length":5},"apply-to":"messages"}`:  "apply-to 'messages' unrecognised",
		`{"pattern":"^q","definition":{"max-length":5},"priority":"important"}`: "priority should be a number",
	} {
		status, _, answer := m.request("PUT", path, body)
		if status != http.StatusBadRequest || !strings.Contains(answer, reason) {
			m.Errorf("%s: %d %s, want %q", body, status, answer, reason)
		}
	}
}

func policyOf(setting string) string { return `{"pattern":"^q","definition":{` + setting + `}}` }

// policy sets a policy that is deleted at the end, for names that begin with the name of the
// object and a suffix. Its pattern begins like the usual one for all objects of users.
func (m *management) policy(suffix, applyTo, priority, definition string) {
	m.Helper()
	path := "/policies/%2F/NAME." + suffix + "-" + priority
	m.Cleanup(func() { m.request(http.MethodDelete, path, "") })
	m.expectResponse("PUT", path,
		`{"pattern":"^(?!amq\\.)NAME.`+suffix+`","apply-to":"`+applyTo+`","priority":`+priority+`,"definition":`+definition+`}`, 201, "")
}

// queue declares a queue that is deleted at the end, and returns its name in paths.
func (m *management) queue(name, arguments string) string {
	m.Helper()
	m.Cleanup(func() { m.request(http.MethodDelete, "/queues/%2F/NAME."+name, "") })
	m.expectResponse("PUT", "/queues/%2F/NAME."+name, `{"durable":true,"arguments":`+arguments+`}`, 201, "")
	return "NAME." + name
}

// publishTo publishes a message, and reports whether a queue has got it.
func (m *management) publishTo(exchange, key string) (routed bool) {
	m.Helper()
	status, answer := m.tryToPublish(exchange, key)
	m.wantEqual("status", status, 200)
	return answer == `{"routed":true}`
}

func (m *management) tryToPublish(exchange, key string) (status int, answer string) {
	m.Helper()
	status, _, answer = m.request("POST", "/exchanges/%2F/"+exchange+"/publish",
		`{"properties":{"delivery_mode":2},"routing_key":"`+key+`","payload":"a","payload_encoding":"string"}`)
	return status, answer
}

// taken removes all messages of a queue, and returns their number.
func (m *management) taken(queue string) int {
	m.Helper()
	status, _, answer := m.request("POST", "/queues/%2F/"+queue+"/get", `{"count":100,"ackmode":"ack_requeue_false","encoding":"auto"}`)
	m.wantEqual("status", status, 200)
	var messages []json.RawMessage
	m.must(json.Unmarshal([]byte(answer), &messages))
	return len(messages)
}

// awaitPolicy waits for a policy, which RabbitMQ applies late to existing objects.
func (m *management) awaitPolicy(what string, is func() bool) {
	m.Helper()
	if !eventually(20*time.Millisecond, is) {
		m.Fatalf("not after %v: %s", eventTimeout, what)
	}
}

// kept publishes messages to a queue, which may refuse some, and returns how many it keeps.
func (m *management) kept(queue string) int {
	m.Helper()
	for range 6 {
		m.tryToPublish("amq.default", queue)
	}
	return m.taken(queue)
}

// policiesOfQueues: of a policy and an argument the stricter number applies. A setting that
// the type of a queue does not have makes the policy one for other queues.
func policiesOfQueues(m *management) {
	plain := m.queue("plain", "{}")
	m.policy("", "queues", "0", `{"max-length":3}`)
	m.awaitPolicy("the policy applies to an existing queue", func() bool { return m.kept(plain) == 3 })
	m.wantEqual("a queue with a lower limit keeps", m.kept(m.queue("lower", `{"x-max-length":2}`)), 2)
	m.wantEqual("a queue with a higher limit keeps", m.kept(m.queue("higher", `{"x-max-length":4,"x-queue-type":"quorum"}`)), 3)

	m.policy("", "all", "1", `{"max-length":1,"delivery-limit":5}`)
	m.policy("", "exchanges", "9", `{"alternate-exchange":"amq.fanout"}`)
	m.wantEqual("a classic queue keeps", m.kept(m.queue("classic", "{}")), 3)
	m.wantEqual("a quorum queue keeps", m.kept(m.queue("quorum", `{"x-queue-type":"quorum"}`)), 1)
	m.expectEventually("/queues/%2F/NAME.quorum?columns=policy,effective_policy_definition",
		`{"policy":"NAME.-1","effective_policy_definition":{"max-length":1,"delivery-limit":5}}`)

	m.expectResponse("DELETE", "/policies/%2F/NAME.-0", "", 204, "")
	m.awaitPolicy("the policy no longer applies", func() bool { return m.kept(plain) == 6 })
}

// overflowOfQuorumQueues: a policy precedes the argument. A full quorum queue keeps one more than its limit if it
// rejects messages, and does not know reject-publish-dlx.
func overflowOfQuorumQueues(m *management) {
	queue := func(name, overflow string) string {
		return m.queue(name, `{"x-queue-type":"quorum","x-max-length":2,"x-overflow":"`+overflow+`"}`)
	}
	rejects, drops, undecided := queue("rejects", "reject-publish"), queue("drops", "drop-head"), queue("undecided", "reject-publish-dlx")
	m.wantEqual("a queue that rejects keeps", m.kept(rejects), 3)
	m.wantEqual("a queue that drops its oldest keeps", m.kept(drops), 2)
	m.wantEqual("a queue with reject-publish-dlx keeps", m.kept(undecided), 2)
	m.policy("rejects", "queues", "0", `{"overflow":"drop-head"}`)
	m.policy("drops", "queues", "1", `{"overflow":"reject-publish"}`)
	m.awaitPolicy("a policy makes a queue drop its oldest", func() bool { return m.kept(rejects) == 2 })
	m.awaitPolicy("a policy makes a queue reject", func() bool { return m.kept(drops) == 3 })
}

// deathsByPolicy: an argument precedes the text of a policy.
func deathsByPolicy(m *management) {
	m.policy("dying", "queues", "0", `{"message-ttl":1,"dead-letter-exchange":"","dead-letter-routing-key":"NAME.dead"}`)
	for queue, arguments := range map[string]string{
		"dead": "{}", "other": "{}", "dying": "{}", "dying.quorum": `{"x-queue-type":"quorum","x-message-ttl":600000}`,
		"dying.elsewhere": `{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"NAME.other"}`,
	} {
		m.queue(queue, arguments)
	}
	for _, c := range []struct{ from, to string }{
		{"NAME.dying", "NAME.dead"}, {"NAME.dying.quorum", "NAME.dead"}, {"NAME.dying.elsewhere", "NAME.other"},
	} {
		m.publishTo("amq.default", c.from)
		m.awaitPolicy(c.from+" dead-letters to "+c.to, func() bool { return m.taken(c.to) == 1 })
	}
}

// policiesOfExchanges: an argument precedes a policy.
func policiesOfExchanges(m *management) {
	exchange := func(name, arguments string) string {
		m.Cleanup(func() { m.request(http.MethodDelete, "/exchanges/%2F/NAME."+name, "") })
		m.expectResponse("PUT", "/exchanges/%2F/NAME."+name, `{"type":"fanout","arguments":`+arguments+`}`, 201, "")
		return "NAME." + name
	}
	unrouted, nowhere, plain := exchange("unrouted", "{}"), exchange("nowhere", "{}"), exchange("with.plain", "{}")
	m.expectResponse("POST", "/bindings/%2F/e/"+unrouted+"/q/"+m.queue("unrouted", "{}"), "{}", 201, "")
	m.wantEqual("routed", m.publishTo(plain, ""), false)
	m.policy("with", "exchanges", "0", `{"alternate-exchange":"NAME.unrouted"}`)
	m.policy("with", "queues", "1", `{"max-length":1}`)
	m.awaitPolicy("the policy applies to an existing exchange", func() bool { return m.publishTo(plain, "") })
	m.wantEqual("routed by the policy", m.publishTo(exchange("with.new", "{}"), ""), true)
	m.wantEqual("routed by the argument", m.publishTo(exchange("with.argument", `{"alternate-exchange":"`+nowhere+`"}`), ""), false)
	m.expectResponse("GET", "/exchanges/%2F/NAME.with.new", "", 200, `{"policy":"NAME.with-0"}`)
	m.expectResponse("DELETE", "/policies/%2F/NAME.with-0", "", 204, "")
	m.awaitPolicy("the policy no longer applies", func() bool { return !m.publishTo(plain, "") })
}
