package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The page of times shows percentiles of each queue, and says which times are not known.
func TestTimesOfWorkPage(t *testing.T) {
	s := newSystem(t)
	s.get(t, whole("/times")).want(t, http.StatusOK, "No attempts in this period")
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: handled")
	s.get(t, whole("/times")).want(t, http.StatusOK, "1 queue", "orders", "1 attempt", "in queue", "not known", "handler", "publish to handled")
	s.publish(t, "m-2", `{}`, amqp.Table{"timestamp_in_ms": time.Now().UnixMilli()})
	s.await(t, 1, "action: handled and total_time > 0")
	page := s.get(t, whole("/times"))
	page.want(t, http.StatusOK, "2 attempts")
	if strings.Contains(page.text, "not known") {
		t.Errorf("times are unknown: %s", page.text)
	}
	s.get(t, whole("/times?q=queue:+mails")).want(t, http.StatusOK, "No attempts in this period")
	s.get(t, whole("/times?q=queue:+(")).want(t, http.StatusBadRequest)
}
