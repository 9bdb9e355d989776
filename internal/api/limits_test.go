package api_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

func TestRequestsAreBounded(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		large := `{"query":"*","reason":"` + strings.Repeat("x", 1<<20) + `"}`
		r.do(t, http.MethodPost, "/failures/discard", large).wantProblem(t, http.StatusRequestEntityTooLarge, "too large")
		r.do(t, http.MethodGet, "/events"+query("query", strings.Repeat("é", 4001)), "").wantProblem(t, http.StatusUnprocessableEntity, "validation")
	})
}

// While RabbitMQ does not answer, requests that need it wait for nobody else, and the store
// is read.
func TestABrokerThatDoesNotAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	inEachStore(t, func(t *testing.T, r rig) {
		r.keep(t, r.event(1, schemas.Published))
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				problem := r.do(t, http.MethodPost, "/messages", `{"exchange":"shop"}`).wantProblem(t, http.StatusServiceUnavailable, "connecting to")
				if problem["remedy"] == nil {
					t.Errorf("%v", problem)
				}
			})
		}
		if got := ids(t, r.get(t, "/events")); got != "m-1" {
			t.Errorf("%q", got)
		}
		waiting.Wait()
	}, "WATERSHIP_AMQP_URL=amqp://guest:guest@"+listener.Addr().String()+"/")
}
