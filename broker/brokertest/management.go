package brokertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// RunManagement runs the suite of RabbitMQ's management API at a URL with the login of
// an administrator, such as http://guest:guest@127.0.0.1:15672, in the virtual host
// "/".
func RunManagement(t *testing.T, address string) {
	for _, c := range []struct {
		name  string
		check func(m *management)
	}{
		{"queues", managedQueues},
		{"exchanges", managedExchanges},
		{"bindings", managedBindings},
		{"messages", managedMessages},
		{"policies", managedPolicies},
		{"policies of queues", policiesOfQueues},
		{"overflow of quorum queues by policy", overflowOfQuorumQueues},
		{"dead letters by policy", deathsByPolicy},
		{"policies of exchanges", policiesOfExchanges},
		{"lists", managedLists},
		{"refusals", managedRefusals},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &management{probe: &probe{T: t}, url: strings.TrimSuffix(address, "/")}
			m.object = m.name()
			t.Cleanup(func() {
				for _, path := range []string{"queues", "exchanges", "policies"} {
					m.request(http.MethodDelete, "/"+path+"/%2F/"+m.object, "")
				}
			})
			c.check(m)
		})
	}
}

// management is a client of the API, with a random name for the objects of its case.
type management struct {
	*probe
	url    string
	object string
}

// login is the user name of the URL.
func (m *management) login() string {
	u, err := url.Parse(m.url)
	m.must(err)
	return u.User.Username()
}

// request sends a request. NAME stands for the name of the object.
func (m *management) request(method, path, body string) (status int, header http.Header, answer string) {
	m.Helper()
	named := strings.NewReplacer("NAME", m.object)
	r, err := http.NewRequest(method, m.url+"/api"+named.Replace(path), strings.NewReader(named.Replace(body)))
	m.must(err)
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: eventTimeout}
	got, err := client.Do(r)
	m.must(err)
	defer got.Body.Close()
	whole, err := io.ReadAll(got.Body)
	m.must(err)
	return got.StatusCode, got.Header, string(bytes.TrimSpace(whole))
}

// expectResponse fails unless the response has this status and this body; its objects may have
// more fields.
func (m *management) expectResponse(method, path, body string, status int, want string) {
	m.Helper()
	got, _, answer := m.request(method, path, body)
	if got != status {
		m.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, answer, status)
	}
	if want != "" {
		m.includes(answer, strings.ReplaceAll(want, "NAME", m.object))
	}
}

// expectEventually is expectResponse for lists that RabbitMQ updates late.
func (m *management) expectEventually(path, want string) {
	m.Helper()
	want = strings.ReplaceAll(want, "NAME", m.object)
	var answer string
	eventually(100*time.Millisecond, func() bool {
		_, _, answer = m.request(http.MethodGet, path, "")
		return includes(m.parse(answer), m.parse(want))
	})
	m.includes(answer, want)
}

func (m *management) includes(answer, want string) {
	m.Helper()
	if got, want := m.parse(answer), m.parse(want); !includes(got, want) {
		m.Fatalf("answer (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func (m *management) parse(text string) (value any) {
	m.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		m.Fatalf("%q is no JSON: %v", text, err)
	}
	return value
}

// includes reports whether got has all of want.
func includes(got, want any) bool {
	object, isObject := want.(map[string]any)
	if !isObject {
		list, isList := want.([]any)
		all, _ := got.([]any)
		if !isList {
			return cmp.Equal(got, want)
		}
		for i := range list {
			if i >= len(all) || !includes(all[i], list[i]) {
				return false
			}
		}
		return len(list) == len(all)
	}
	have, _ := got.(map[string]any)
	for name, value := range object {
		if !includes(have[name], value) {
			return false
		}
	}
	return true
}

func managedQueues(m *management) {
	queue := `{"durable":true,"arguments":{"x-message-ttl":60000}}`
	m.expectResponse("PUT", "/queues/%2F/NAME", queue, 201, "")
	m.expectResponse("PUT", "/queues/%2F/NAME", queue, 204, "")
	m.expectResponse("PUT", "/queues/%2F/NAME", `{"durable":false,"arguments":{"x-message-ttl":60000}}`, 400,
		`{"error":"bad_request","reason":"inequivalent arg 'durable' for queue 'NAME' in vhost '/': received 'false' but current is 'true'"}`)
	m.expectResponse("PUT", "/queues/%2F/NAME", "no JSON", 400, `{"error":"bad_request","reason":"not_json"}`)
	m.expectResponse("GET", "/queues/%2F/NAME", "", 200, `{"name":"NAME","vhost":"/","type":"classic","durable":true,"auto_delete":false,"arguments":{"x-message-ttl":60000}}`)
	m.expectResponse("HEAD", "/queues/%2F/NAME", "", 200, "")
	m.expectResponse("GET", "/queues/%2F/NAME.none", "", 404, `{"error":"Object Not Found","reason":"Not Found"}`)
	m.expectResponse("DELETE", "/queues/%2F/NAME.none", "", 404, `{"error":"Object Not Found","reason":"Not Found"}`)
	m.expectResponse("PUT", "/queues/none/NAME", queue, 404, "")
	m.expectResponse("POST", "/exchanges/%2F/amq.default/publish", `{"properties":{},"routing_key":"NAME","payload":"a","payload_encoding":"string"}`, 200, `{"routed":true}`)
	m.expectResponse("DELETE", "/queues/%2F/NAME?if-empty=true", "", 400, `{"error":"bad_request","reason":"queue 'NAME' in vhost '/' not empty"}`)
	m.expectResponse("DELETE", "/queues/%2F/NAME/contents", "", 204, "")
	m.expectResponse("DELETE", "/queues/%2F/NAME?if-empty=true", "", 204, "")
	m.expectResponse("PUT", "/queues/%2F/NAME", `{"auto_delete":false,"durable":true,"arguments":{"x-queue-type":"quorum"}}`, 201, "")
	m.expectResponse("GET", "/queues/%2F/NAME", "", 200, `{"type":"quorum"}`)
}

func managedExchanges(m *management) {
	m.expectResponse("PUT", "/exchanges/%2F/NAME.transient", `{"type":"topic","auto_delete":true}`, 201, "")
	m.expectResponse("GET", "/exchanges/%2F/NAME.transient", "", 200, `{"durable":false}`)
	m.expectResponse("DELETE", "/exchanges/%2F/NAME.transient", "", 204, "")
	m.expectResponse("PUT", "/exchanges/%2F/NAME", `{"type":"topic","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`, 201, "")
	m.expectResponse("PUT", "/exchanges/%2F/NAME", `{"type":"topic","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`, 204, "")
	m.expectResponse("GET", "/exchanges/%2F/NAME", "", 200,
		`{"name":"NAME","type":"topic","durable":true,"internal":false,"arguments":{"alternate-exchange":"amq.fanout"}}`)
	m.expectResponse("GET", "/exchanges/%2F/amq.default", "", 200, `{"name":"","type":"direct","durable":true}`)
	m.expectResponse("PUT", "/exchanges/%2F/amq.mine", `{"type":"topic"}`, 401, `{"error":"not_authorised","reason":"Access refused."}`)
	m.expectResponse("DELETE", "/exchanges/%2F/amq.direct", "", 401, `{"error":"not_authorised","reason":"Access refused."}`)
	m.expectResponse("DELETE", "/exchanges/%2F/NAME", "", 204, "")
	m.expectResponse("DELETE", "/exchanges/%2F/NAME", "", 404, "")
}

func managedBindings(m *management) {
	m.expectResponse("PUT", "/queues/%2F/NAME", `{}`, 201, "")
	m.expectResponse("PUT", "/exchanges/%2F/NAME", `{"type":"topic"}`, 201, "")
	m.expectResponse("GET", "/bindings/%2F/e/NAME/q/NAME", "", 200, `[]`)
	for _, c := range []struct{ body, key string }{
		{`{"routing_key":""}`, "~"},
		{`{"routing_key":"a.~#/b c","arguments":{}}`, "a.%7E%23%2Fb+c"},
	} {
		status, header, answer := m.request("POST", "/bindings/%2F/e/NAME/q/NAME", c.body)
		m.wantEqual("status", status, 201)
		m.wantEqual("answer", answer, "")
		if location := header.Get("Location"); !strings.HasPrefix(location, m.object+"/") {
			m.Errorf("location is %q", location)
		}
		m.expectEventually("/bindings/%2F/e/NAME/q/NAME",
			`[{"source":"NAME","vhost":"/","destination":"NAME","destination_type":"queue","properties_key":"`+c.key+`"}]`)
		escaped := strings.ReplaceAll(c.key, "%", "%25")
		m.expectResponse("GET", "/bindings/%2F/e/NAME/q/NAME/"+escaped, "", 200, `{"source":"NAME","destination":"NAME"}`)
		m.expectResponse("DELETE", "/bindings/%2F/e/NAME/q/NAME/"+escaped, "", 204, "")
		m.expectResponse("DELETE", "/bindings/%2F/e/NAME/q/NAME/"+escaped, "", 404, "")
	}
	m.expectResponse("POST", "/bindings/%2F/e/NAME/q/NAME", `{"routing_key":"k","arguments":{"n":1}}`, 201, "")
	m.expectResponse("POST", "/bindings/%2F/e/amq.fanout/e/NAME", `{"routing_key":"k"}`, 201, "")
	m.expectResponse("POST", "/bindings/%2F/e/NAME/q/NAME.none", `{"routing_key":""}`, 404, `{"error":"not_found","reason":"no queue 'NAME.none' in vhost '/'"}`)
	m.expectEventually("/exchanges/%2F/NAME/bindings/source?columns=destination,routing_key,arguments",
		`[{"destination":"NAME","routing_key":"k","arguments":{"n":1}}]`)
	m.expectEventually("/exchanges/%2F/NAME/bindings/destination", `[{"source":"amq.fanout","destination":"NAME","destination_type":"exchange"}]`)
	m.expectEventually("/queues/%2F/NAME/bindings", `[{"source":"","routing_key":"NAME","properties_key":"NAME"},{"source":"NAME","routing_key":"k"}]`)
}

func managedMessages(m *management) {
	m.expectResponse("PUT", "/queues/%2F/NAME", `{}`, 201, "")
	publish := "/exchanges/%2F/amq.default/publish"
	m.expectResponse("POST", publish, `{"properties":{"delivery_mode":2,"content_type":"text/plain","headers":{"n":1,"s":"x","deep":{"list":[true,1.5]}}},
		"routing_key":"NAME","payload":"hello","payload_encoding":"string"}`, 200, `{"routed":true}`)
	m.expectResponse("POST", publish, `{"properties":{},"routing_key":"NAME","payload":"/w==","payload_encoding":"base64"}`, 200, `{"routed":true}`)
	m.expectResponse("POST", publish, `{"properties":{},"routing_key":"NAME.none","payload":"","payload_encoding":"string"}`, 200, `{"routed":false}`)
	m.expectResponse("POST", publish, `{"routing_key":"NAME","payload":""}`, 400, `{"error":"bad_request","reason":"[{key_missing,properties},{key_missing,payload_encoding}]"}`)
	hello := `{"payload_bytes":5,"redelivered":REDELIVERED,"exchange":"","routing_key":"NAME","message_count":1,
		"properties":{"delivery_mode":2,"content_type":"text/plain","headers":{"n":1,"s":"x","deep":{"list":[true,1.5]}}},"payload":"hello","payload_encoding":"string"}`
	get := "/queues/%2F/NAME/get"
	m.expectResponse("POST", get, `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, "["+strings.ReplaceAll(hello, "REDELIVERED", "false")+"]")
	m.expectResponse("POST", get, `{"count":1}`, 400, `{"error":"bad_request","reason":"[{key_missing,ackmode},{key_missing,encoding}]"}`)
	m.expectResponse("POST", get, `{"count":5,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200,
		"["+strings.ReplaceAll(hello, "REDELIVERED", "true")+`,{"payload_bytes":1,"message_count":0,"payload":"/w==","payload_encoding":"base64"}]`)
	m.expectResponse("POST", get, `{"count":5,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200, "[]")
}

func managedLists(m *management) {
	for _, name := range []string{"b", "a", "c"} {
		m.expectResponse("PUT", "/queues/%2F/NAME."+name, `{"auto_delete":true}`, 201, "")
		m.Cleanup(func() { m.request("DELETE", "/queues/%2F/NAME."+name, "") })
	}
	m.expectEventually("/queues/%2F?name=NAME&columns=name&sort=name&sort_reverse=true&page=1&page_size=2",
		`{"page":1,"page_size":2,"page_count":2,"item_count":2,"filtered_count":3,"items":[{"name":"NAME.c"},{"name":"NAME.b"}]}`)
	m.expectEventually("/queues/%2F?name=NAME.[ab]&use_regex=true&columns=name,auto_delete&sort=name&page=1",
		`{"page":1,"page_count":1,"items":[{"name":"NAME.a","auto_delete":true},{"name":"NAME.b","auto_delete":true}]}`)
	for _, path := range []string{
		"/exchanges", "/queues", "/bindings", "/vhosts", "/nodes", "/connections", "/channels", "/consumers", "/consumers/%2F",
		"/users", "/permissions", "/policies", "/policies/%2F", "/parameters", "/operator-policies", "/vhost-limits",
		"/vhosts/%2F/connections", "/vhosts/%2F/channels",
	} {
		status, _, answer := m.request("GET", path, "")
		m.wantEqual(path, status, 200)
		if _, isList := m.parse(answer).([]any); !isList {
			m.Errorf("%s answers %s", path, answer)
		}
	}
	m.expectResponse("HEAD", "/exchanges", "", 200, "")
	m.expectResponse("GET", "/vhosts/%2F", "", 200, `{"name":"/"}`)
	m.expectResponse("GET", "/whoami", "", 200, `{"name":"`+m.login()+`","tags":["administrator"]}`)
	m.expectResponse("GET", "/aliveness-test/%2F", "", 200, `{"status":"ok"}`)
}

func managedRefusals(m *management) {
	for _, path := range []string{"/none", "/queues/none", "/vhosts/none", "/connections/none", "/exchanges/%2F/NAME", "/bindings/none"} {
		m.expectResponse("GET", path, "", 404, `{"error":"Object Not Found","reason":"Not Found"}`)
	}
	m.expectResponse("PATCH", "/queues/%2F/NAME", "{}", 405, "")
}
