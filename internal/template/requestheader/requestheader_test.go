package requestheader

import (
	"strings"
	"testing"
)

func TestCheckSet(t *testing.T) {
	for name, want := range map[string]bool{
		"Content-Type": true, "content-type": true, "Authorization": true, "Idempotency-Key": true, "User-Agent": true,
		"Content-Length": false, "Content-Encoding": false, "Host": false, "Transfer-Encoding": false, "Connection": false, "Webhook-Id": false, "watership-queue": false, "a b": false,
	} {
		if err := CheckSet(name); (err == nil) != want {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"tenant": "", "X-Tenant": "", "traceparent": "", "Idempotency-Key": "", "Authorization": "",
		"": "the name of a header", "two words": "the name of a header", "line\r\nbreak": "the name of a header", "tenänt": "the name of a header",
		"tenant_id": "without _",
		"Host":      "not about the connection", "Content-Length": "not about the connection", "transfer-encoding": "not about the connection",
		"Watership-Attempt": "not about the connection", "Proxy-Authorization": "not about the connection", "TE": "not about the connection",
	} {
		err := Check(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}
